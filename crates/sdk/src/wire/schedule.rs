//! When attempts are made.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Json;

/// When the attempts of a delivery are made. The first is due at once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Schedule {
    /// n² minutes before attempt n.
    Quadratic {
        /// 1 to 10, the first included.
        attempts: u32,
    },
    /// Eight attempts over 27 h 35 min 5 s, each wait ± 20 %.
    Standard,
    /// Nine attempts over 46 h 21 min, each wait ± 20 %. That of mailboxes; no endpoint can be given it.
    Mail,
    /// One attempt more than waits.
    Custom {
        /// Each at most 604,800, fractions allowed; a destination has at most 9, a webhook 19.
        waits_seconds: Vec<f64>,
        /// The share by which each wait may deviate, 0 to 0.5.
        jitter: f64,
    },
    /// One of a newer server.
    Other(Json),
}

/// A schedule as it is written. Not an enum with a tag: serde keeps what comes before a tag in a buffer, out of which
/// numbers do not come where somebody has switched on serde_json's exact ones.
#[derive(Serialize, Deserialize)]
struct Written {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_seconds: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<f64>,
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, attempts, waits_seconds, jitter) = match self {
            Self::Quadratic { attempts } => ("quadratic", Some(*attempts), None, None),
            Self::Standard => ("standard", None, None, None),
            Self::Mail => ("mail", None, None, None),
            Self::Custom { waits_seconds, jitter } => {
                ("custom", None, Some(waits_seconds.clone()), Some(*jitter))
            }
            Self::Other(json) => return json.serialize(serializer),
        };
        Written { kind: kind.to_owned(), attempts, waits_seconds, jitter }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let Ok(Written { kind, attempts, waits_seconds, jitter }) = json.read() else {
            return Ok(Self::Other(json));
        };
        Ok(match (kind.as_str(), attempts, waits_seconds, jitter) {
            ("quadratic", Some(attempts), None, None) => Self::Quadratic { attempts },
            ("standard", None, None, None) => Self::Standard,
            ("mail", None, None, None) => Self::Mail,
            ("custom", None, Some(waits_seconds), Some(jitter)) => Self::Custom { waits_seconds, jitter },
            _ => Self::Other(json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_come_back_as_they_came() {
        let table = [
            (r#"{"kind":"quadratic","attempts":5}"#, Schedule::Quadratic { attempts: 5 }),
            (r#"{"kind":"standard"}"#, Schedule::Standard),
            (r#"{"kind":"mail"}"#, Schedule::Mail),
            (
                r#"{"kind":"custom","waits_seconds":[60.0,0.5],"jitter":0.1}"#,
                Schedule::Custom { waits_seconds: vec![60.0, 0.5], jitter: 0.1 },
            ),
            (
                r#"{"kind":"fibonacci","attempts":9,"unit":"h"}"#,
                Schedule::Other(Json::parse(r#"{"kind":"fibonacci","attempts":9,"unit":"h"}"#).unwrap()),
            ),
        ];
        for (text, expected) in table {
            let schedule: Schedule = serde_json::from_str(text).unwrap();
            assert_eq!(schedule, expected, "{text}");
            assert_eq!(serde_json::to_string(&schedule).unwrap(), text);
        }
    }
}
