//! Whether the manager is there, and for how many units.

use crate::stock::Stock;
use std::time::Duration;
use tokio::sync::watch;

/// How often the manager is asked.
const PERIOD: Duration = Duration::from_secs(1);

/// The units that the kubelet is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// How many there are: unit 0 to this.
    pub all: usize,
    /// How many of them, from unit 0 on, can be used.
    pub healthy: usize,
}

impl Health {
    /// With a manager that has memory for so many, or without a manager. Units do
    /// not disappear: who has one would be stopped.
    fn next(self, found: Option<usize>) -> Health {
        let healthy = found.unwrap_or(0);
        Health {
            all: self.all.max(healthy),
            healthy,
        }
    }
}

/// Asks the manager until it answers for the first time, and then for ever. `say`
/// writes a line for the administrator.
pub(crate) async fn watch(stock: Stock, say: fn(&str)) -> watch::Receiver<Health> {
    let mut is_said = false;
    let first = loop {
        match ask(&stock).await {
            Ok(units) => break units,
            Err(why) if !is_said => {
                say(&format!("waiting for the manager: {why}"));
                is_said = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(PERIOD).await;
    };
    let start = Health { all: 0, healthy: 0 };
    let (sender, receiver) = watch::channel(start.next(Some(first)));
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::time::sleep(PERIOD).await;
            let found = ask(&stock).await;
            sender.send_if_modified(|health| {
                let next = health.next(found.as_ref().ok().copied());
                let was_healthy = health.healthy > 0;
                match &found {
                    Ok(units) if !was_healthy => {
                        say(&format!("the manager is back: {units} units"));
                    }
                    Err(why) if was_healthy => {
                        say(&format!("no unit is healthy: {why}"));
                    }
                    _ => {}
                }
                std::mem::replace(health, next) != next
            });
        }
    });
    receiver
}

async fn ask(stock: &Stock) -> Result<usize, String> {
    let stock = stock.clone();
    // It waits for a socket.
    let asked = tokio::task::spawn_blocking(move || stock.units()).await;
    asked.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_unhealthy_and_never_disappear() {
        let start = Health { all: 4, healthy: 4 };
        let gone = start.next(None);
        assert_eq!(gone, Health { all: 4, healthy: 0 });
        assert_eq!(gone.next(Some(4)), start);
        // Another device.
        assert_eq!(gone.next(Some(3)), Health { all: 4, healthy: 3 });
        assert_eq!(gone.next(Some(6)), Health { all: 6, healthy: 6 });
    }
}
