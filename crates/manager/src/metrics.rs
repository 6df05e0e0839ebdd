//! What Prometheus scrapes: `GET /metrics`, by HTTP/1.1 over loopback or a UNIX
//! socket. One connection at a time, each with one request and a deadline.

use crate::log;
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use protocol::{Overview, StoreTotals, TenantRow};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// An address of this machine's own.
    Loopback(SocketAddr),
    /// A UNIX socket.
    Unix(PathBuf),
}

impl std::str::FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MetricsAddress, String> {
        if text.starts_with('/') {
            return Ok(MetricsAddress::Unix(text.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "expected an address such as 127.0.0.1:9400, or the absolute path of a socket"
                .to_owned()
        })?;
        match address.ip().is_loopback() {
            true => Ok(MetricsAddress::Loopback(address)),
            false => Err(format!(
                "{address} is no loopback address: anybody who reaches it would see the programs of all users"
            )),
        }
    }
}

impl std::fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MetricsAddress::Loopback(address) => address.fmt(f),
            MetricsAddress::Unix(path) => path.display().fmt(f),
        }
    }
}

/// What listens there.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// At an address; `unix` makes the socket at a path.
    pub(crate) fn bind(
        address: &MetricsAddress,
        unix: impl FnOnce(&std::path::Path) -> std::io::Result<UnixListener>,
    ) -> std::io::Result<Listener> {
        Ok(match address {
            MetricsAddress::Loopback(address) => Listener::Tcp(TcpListener::bind(address)?),
            MetricsAddress::Unix(path) => Listener::Unix(unix(path)?),
        })
    }

    /// Answers, for ever.
    pub(crate) fn serve(&self, overview: impl Fn() -> Overview) {
        loop {
            let answered = match self {
                Listener::Tcp(listener) => listener.accept().and_then(|(mut socket, _)| {
                    socket.set_read_timeout(Some(TICK))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    answer(&mut socket, &overview)
                }),
                Listener::Unix(listener) => listener.accept().and_then(|(mut socket, _)| {
                    socket.set_read_timeout(Some(TICK))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    answer(&mut socket, &overview)
                }),
            };
            if let Err(error) = answered {
                log::line(&format!("warning: metrics were not sent: {error}"));
                // Descriptors may be exhausted.
                std::thread::sleep(TICK);
            }
        }
    }
}

/// How long a request may take to arrive, and a reply to be taken.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often that is looked at.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of a request at most.
const LONGEST: usize = 8 << 10;

fn answer(
    socket: &mut (impl Read + Write),
    overview: &impl Fn() -> Overview,
) -> std::io::Result<()> {
    let request = request(socket)?;
    let line = request.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
    let mut words = line.split(' ');
    let (status, kind, body) = match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some("/metrics"), Some(version)) if version.starts_with("HTTP/1.") => {
            let text = text(&overview()).map_err(std::io::Error::other)?;
            ("200 OK", OPEN_METRICS, text)
        }
        (Some("GET"), Some(_), Some(_)) => {
            ("404 Not Found", PLAIN, "metrics are at /metrics\n".into())
        }
        _ => (
            "400 Bad Request",
            PLAIN,
            "only GET of HTTP/1.1 is understood\n".into(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes())
}

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Reads the head of a request, as far as it comes.
fn request(socket: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let start = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while bytes.len() < LONGEST && start.elapsed() < PATIENCE {
        match socket.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        if bytes.windows(4).any(|four| four == b"\r\n\r\n") {
            break;
        }
    }
    Ok(bytes)
}

/// What tells tenants apart. There are at most as many as there are partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    tenant: u64,
    uid: u32,
    program: String,
}

/// A measure of each tenant: its name, what it says, and the number.
type Measure = (&'static str, &'static str, fn(&TenantRow) -> u64);

const MEASURES: [Measure; 8] = [
    ("memory_bytes", "Device memory that a tenant has", |row| {
        row.memory
    }),
    (
        "memory_limit_bytes",
        "Device memory that a tenant may have",
        |row| row.memory_limit,
    ),
    (
        "weight",
        "Parts of the device's time that a tenant gets beside others",
        |row| row.weight,
    ),
    (
        "kernels_loaded",
        "Fenced kernels that a tenant has loaded",
        |row| row.kernels,
    ),
    (
        "kernels_launched",
        "Fenced kernels that a tenant has launched",
        |row| row.launches,
    ),
    (
        "faults_contained",
        "Traps, assertions and ended kernels of a tenant",
        |row| row.faults,
    ),
    (
        "requests_refused",
        "Requests of a tenant that a quota or the verifier refused",
        |row| row.refusals,
    ),
    ("age_seconds", "Time since a tenant was admitted", |row| {
        row.age_seconds
    }),
];

/// Of compiled modules that are kept on disk.
fn cache(store: &StoreTotals) -> [(&'static str, &'static str, u64); 6] {
    [
        (
            "cache_found",
            "Modules whose result was in the folder of the cache",
            store.found,
        ),
        (
            "cache_missing",
            "Modules whose result was not in the folder of the cache",
            store.missing,
        ),
        (
            "cache_damaged",
            "Files of the cache that were damaged, and were removed",
            store.damaged,
        ),
        (
            "cache_written",
            "Files of the cache that were written",
            store.written,
        ),
        (
            "cache_not_written",
            "Files of the cache that could not be written",
            store.not_written,
        ),
        (
            "cache_evicted",
            "Files of the cache that had to go for others",
            store.evicted,
        ),
    ]
}

fn text(overview: &Overview) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::with_prefix("ringfence");
    let totals = overview.totals;
    for (name, help, value) in cache(&totals.store) {
        registry.register(name, help, ConstCounter::new(value));
    }
    for (name, help, value) in [
        (
            "tenants_admitted",
            "Tenants that were admitted",
            totals.admitted,
        ),
        (
            "tenants_not_admitted",
            "Connections that were not admitted",
            totals.not_admitted,
        ),
        (
            "launches",
            "Kernels that all tenants have launched",
            totals.launches,
        ),
        (
            "faults_contained",
            "Faults of kernels that were contained",
            totals.faults,
        ),
        (
            "requests_refused",
            "Requests that a quota or the verifier refused",
            totals.refusals,
        ),
        (
            "modules_compiled",
            "Modules that were compiled",
            totals.compiled,
        ),
        (
            "modules_cached",
            "Modules whose result was there already",
            totals.cached,
        ),
        (
            "modules_not_compiled",
            "Modules that could not be compiled",
            totals.not_compiled,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    for (name, help, value) in [
        (
            "uptime_seconds",
            "Time since the manager was started",
            overview.uptime_seconds,
        ),
        (
            "partitions_taken",
            "Partitions that are taken",
            overview.partitions_taken,
        ),
        (
            "partitions",
            "Partitions that there are",
            overview.partitions,
        ),
    ] {
        registry.register(
            name,
            help,
            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)),
        );
    }
    for (name, help, value) in MEASURES {
        let family = Family::<Labels, Gauge>::default();
        for row in &overview.tenants {
            let labels = Labels {
                tenant: row.tenant,
                uid: row.uid,
                program: row.program.clone(),
            };
            let value = i64::try_from(value(row)).unwrap_or(i64::MAX);
            family.get_or_create(&labels).set(value);
        }
        registry.register(format!("tenant_{name}"), help, family);
    }
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Totals;
    use std::os::unix::net::UnixStream;

    fn overview() -> Overview {
        Overview {
            device: "CPU".into(),
            uptime_seconds: 3,
            partitions: 8,
            partitions_taken: 1,
            totals: Totals {
                launches: 12,
                ..Totals::default()
            },
            tenants: vec![TenantRow {
                tenant: 5,
                pid: Some(1),
                uid: 1000,
                program: "a \"b\"\\\nc".into(),
                memory: 4096,
                memory_limit: 1 << 30,
                weight: 3,
                kernels: 1,
                launches: 12,
                faults: 0,
                refusals: 0,
                age_seconds: 2,
            }],
        }
    }

    fn ask(request: &[u8]) -> String {
        let (mut own, mut theirs) = UnixStream::pair().unwrap();
        own.write_all(request).unwrap();
        own.shutdown(std::net::Shutdown::Write).unwrap();
        answer(&mut theirs, &overview).unwrap();
        drop(theirs);
        let mut text = String::new();
        own.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn metrics_are_open_metrics() {
        let text = ask(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{head}"
        );
        for line in [
            "ringfence_launches_total 12\n",
            "ringfence_partitions_taken 1\n",
            "# TYPE ringfence_tenant_memory_bytes gauge\n",
            "ringfence_tenant_memory_bytes{tenant=\"5\",uid=\"1000\",program=\"a \\\"b\\\"\\\\\\nc\"} 4096\n",
        ] {
            assert!(body.contains(line), "`{line}` is not in: {body}");
        }
        assert!(body.ends_with("# EOF\n"), "{body}");
    }

    #[test]
    fn what_is_no_request_for_them_is_refused() {
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "400"),
            (b"GET /metrics\r\n\r\n", "400"),
            (b"", "400"),
            (&[0xff; LONGEST], "400"),
        ] {
            let text = ask(request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_served() {
        let parse = |text: &str| text.parse::<MetricsAddress>();
        assert!(matches!(
            parse("127.0.0.1:9400"),
            Ok(MetricsAddress::Loopback(_))
        ));
        assert!(matches!(
            parse("[::1]:9400"),
            Ok(MetricsAddress::Loopback(_))
        ));
        assert!(matches!(
            parse("/run/metrics.sock"),
            Ok(MetricsAddress::Unix(_))
        ));
        assert!(parse("0.0.0.0:9400").unwrap_err().contains("loopback"));
        assert!(parse("9400").unwrap_err().contains("expected"));
    }
}
