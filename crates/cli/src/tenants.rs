//! `ringfence tenants`: who is on a manager's device.

use crate::options::TenantsOptions;
use anyhow::{Context, Result, bail};
use protocol::{
    AdminReply, AdminRequest, Channel, Frame, MAGIC, Overview, SocketChannel, VERSION, admin_socket,
};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the manager may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Shows the tenants, once or until it is ended.
pub fn tenants(options: &TenantsOptions) -> Result<()> {
    let socket = options.socket.clone();
    let socket = admin_socket(&socket.unwrap_or_else(protocol::default_socket));
    let mut out = std::io::stdout();
    loop {
        let overview = ask(&socket)?;
        let mut text = match options.json {
            true => serde_json::to_string(&overview)? + "\n",
            false => table(&overview),
        };
        if options.watch.is_some() && !options.json && out.is_terminal() {
            // From the top of an empty screen.
            text.insert_str(0, "\x1b[2J\x1b[H");
        }
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        match (written, options.watch) {
            // A pipe that is closed takes no more.
            (Err(error), _) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            (Err(error), _) => return Err(error).context("failed to write the table"),
            (Ok(()), None) => return Ok(()),
            (Ok(()), Some(seconds)) => std::thread::sleep(Duration::from_secs(seconds.into())),
        }
    }
}

fn ask(path: &Path) -> Result<Overview> {
    let socket = UnixStream::connect(path).with_context(|| {
        format!(
            "there is no manager whose administrator may connect at {}; name the socket of its tenants with --socket",
            path.display()
        )
    })?;
    let answered = || -> Result<AdminReply, protocol::ChannelError> {
        let mut channel = SocketChannel::new(socket)?;
        channel.set_patience(Some(PATIENCE))?;
        let request = AdminRequest {
            magic: MAGIC,
            version: VERSION,
        };
        // One that refuses may have closed it already, and has said why.
        let sent = Frame::send(&mut channel, &request, &[]);
        let reply = Frame::default().receive(&mut channel);
        if reply.is_err() {
            sent?;
        }
        reply
    };
    match answered() {
        Ok(Ok(overview)) => Ok(overview),
        Ok(Err(why)) => bail!("the manager at {} refuses: {why}", path.display()),
        Err(error) => bail!("the manager at {} gave no answer: {error}", path.display()),
    }
}

/// The columns, right-aligned but for the last one.
const HEAD: [&str; 10] = [
    "TENANT", "PID", "UID", "MEMORY", "LIMIT", "KERNELS", "LAUNCHES", "FAULTS", "REFUSED", "AGE",
];

fn table(overview: &Overview) -> String {
    let mut rows: Vec<[String; 10]> = vec![HEAD.map(str::to_owned)];
    let mut programs = vec!["PROGRAM"];
    for row in &overview.tenants {
        rows.push([
            row.tenant.to_string(),
            row.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
            row.uid.to_string(),
            bytes(row.memory),
            bytes(row.memory_limit),
            row.kernels.to_string(),
            row.launches.to_string(),
            row.faults.to_string(),
            row.refusals.to_string(),
            duration(row.age_seconds),
        ]);
        programs.push(&row.program);
    }
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: {} of {} partitions taken, up {}",
        overview.device,
        overview.partitions_taken,
        overview.partitions,
        duration(overview.uptime_seconds)
    );
    for (row, program) in rows.iter().zip(programs) {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell:>width$}  ");
        }
        let _ = writeln!(text, "{program}");
    }
    text
}

/// Bytes with a suffix for a power of 1024.
fn bytes(number: u64) -> String {
    let suffixes = [(30, "g"), (20, "m"), (10, "k")];
    let fits = suffixes.into_iter().find(|(shift, _)| number >> shift > 0);
    fits.map_or_else(
        || number.to_string(),
        |(shift, suffix)| {
            let tenths = (u128::from(number) * 10) >> shift;
            match tenths % 10 {
                0 => format!("{}{suffix}", tenths / 10),
                rest => format!("{}.{rest}{suffix}", tenths / 10),
            }
        },
    )
}

/// Seconds as a time.
fn duration(seconds: u64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match (minutes, hours) {
        (0, _) => format!("{seconds}s"),
        (_, 0) => format!("{minutes}m{:02}s", seconds % 60),
        _ => format!("{hours}h{:02}m", minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TenantRow;

    #[test]
    fn the_table_has_a_row_for_each() {
        let row = TenantRow {
            tenant: 3,
            pid: None,
            uid: 1000,
            program: "app".into(),
            memory: 1536,
            memory_limit: 4 << 30,
            weight: 1,
            kernels: 2,
            launches: 12_345,
            faults: 1,
            refusals: 0,
            age_seconds: 61,
        };
        let overview = Overview {
            device: "CPU device".into(),
            uptime_seconds: 7265,
            partitions: 8,
            partitions_taken: 1,
            tenants: vec![row],
            ..Overview::default()
        };
        let expected = "\
CPU device: 1 of 8 partitions taken, up 2h01m
TENANT  PID   UID  MEMORY  LIMIT  KERNELS  LAUNCHES  FAULTS  REFUSED    AGE  PROGRAM
     3    -  1000    1.5k     4g        2     12345       1        0  1m01s  app
";
        assert_eq!(table(&overview), expected);
    }

    #[test]
    fn sizes_have_suffixes() {
        for (number, text) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1k"),
            (1 << 20, "1m"),
            (u64::MAX, "17179869183.9g"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
