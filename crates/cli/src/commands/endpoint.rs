//! Flags that destinations and webhooks have in common.

use std::collections::BTreeMap;

use restante_sdk::wire::{Schedule, Secret};

use crate::input;

/// How an endpoint is delivered to.
#[derive(Debug, clap::Args)]
pub(crate) struct Terms {
    /// When attempts are made: quadratic[:ATTEMPTS], standard, or the waits in seconds: 5,300,1800
    #[arg(long, value_parser = schedule)]
    schedule: Option<Schedule>,
    /// By which share waits in seconds may deviate, 0 to 0.5
    #[arg(long, value_name = "SHARE", requires = "schedule")]
    jitter: Option<f64>,
    /// A header of every attempt; an update replaces all
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = input::header)]
    headers: Vec<(String, String)>,
    /// Attempts at the same time, 1 to 1000 [default: 64]
    #[arg(long, value_name = "N")]
    pub(super) max_in_flight: Option<u32>,
    /// Attempts per second, 0.1 to 10000 [default: as many as there are]
    #[arg(long, value_name = "RATE")]
    pub(super) rate_per_second: Option<f64>,
    /// From name lookup to the end of the response head, 1 to 60
    #[arg(long, value_name = "SECONDS")]
    pub(super) timeout_seconds: Option<u32>,
}

impl Terms {
    pub(super) fn schedule(&self) -> Option<Schedule> {
        match (self.schedule.clone()?, self.jitter) {
            (Schedule::Custom { waits_seconds, .. }, Some(jitter)) => {
                Some(Schedule::Custom { waits_seconds, jitter })
            }
            (schedule, _) => Some(schedule),
        }
    }

    pub(super) fn headers(&self) -> BTreeMap<String, Secret> {
        self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
    }

    /// `None`: they stay as they are.
    pub(super) fn changed_headers(&self) -> Option<BTreeMap<String, Option<Secret>>> {
        let headers: BTreeMap<_, _> =
            self.headers().into_iter().map(|(name, value)| (name, Some(value))).collect();
        (!headers.is_empty()).then_some(headers)
    }
}

fn schedule(text: &str) -> Result<Schedule, String> {
    let wrong =
        || "quadratic, quadratic:ATTEMPTS, standard, or waits in seconds such as 5,300,1800".to_owned();
    match text.split_once(':').unwrap_or((text, "")) {
        ("standard", "") => return Ok(Schedule::Standard),
        ("quadratic", "") => return Ok(Schedule::Quadratic { attempts: 5 }),
        ("quadratic", attempts) => {
            return attempts.parse().map(|attempts| Schedule::Quadratic { attempts }).map_err(|_| wrong());
        }
        _ => {}
    }
    let waits: Result<Vec<f64>, _> = text.split(',').map(|wait| wait.trim().parse()).collect();
    Ok(Schedule::Custom { waits_seconds: waits.map_err(|_| wrong())?, jitter: 0.0 })
}

/// A schedule in a few words.
pub(super) fn in_words(schedule: &Schedule) -> String {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what no flag sets is shown as it is")]
    match schedule {
        Schedule::Quadratic { attempts } => format!("quadratic:{attempts}"),
        Schedule::Standard => "standard".to_owned(),
        Schedule::Custom { waits_seconds, .. } => {
            waits_seconds.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
        }
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_is_shown() {
        for text in ["standard", "quadratic:3", "5,300,0.5"] {
            assert_eq!(in_words(&schedule(text).unwrap()), text);
        }
        assert_eq!(schedule("quadratic"), Ok(Schedule::Quadratic { attempts: 5 }));
        for text in ["", "often", "standard:3", "quadratic:x", "5,,6"] {
            assert!(schedule(text).is_err(), "{text}");
        }
    }
}
