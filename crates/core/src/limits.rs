//! Limits that callers meet, each in one place.

use std::time::Duration;

/// Largest body intake takes unless configured, in bytes (5 MiB).
pub const INTAKE_BODY_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Longest name of a source, key or workspace, in characters.
pub const NAME_CHARS_MAX: usize = 128;
/// Longest URL of an endpoint, in characters.
pub const URL_CHARS_MAX: usize = 2048;
/// Most static headers an endpoint may set.
pub const ENDPOINT_HEADERS_MAX: usize = 20;
/// Longest value of a static header, in bytes.
pub const HEADER_VALUE_BYTES_MAX: usize = 4096;
/// Range of `max_in_flight`: attempts of one endpoint at the same time, over all nodes together.
pub const MAX_IN_FLIGHT: std::ops::RangeInclusive<u32> = 1..=1000;
/// `max_in_flight` of an endpoint that does not set it.
pub const MAX_IN_FLIGHT_DEFAULT: u32 = 64;
/// Range of `rate_per_second`.
pub const RATE_PER_SECOND: std::ops::RangeInclusive<f64> = 0.1..=10_000.0;
/// Range of `timeout_seconds`: from name lookup to the end of the response head.
pub const TIMEOUT_SECONDS: std::ops::RangeInclusive<u32> = 1..=60;
/// `timeout_seconds` of a destination that does not set it.
pub const TIMEOUT_SECONDS_DESTINATION: u32 = 30;
/// A lease outlives the attempt's timeout by this much.
pub const LEASE_MARGIN: Duration = Duration::from_secs(15);
/// Bytes of a response body that are read before the connection is given up.
pub const RESPONSE_BODY_BYTES_MAX: usize = 64 * 1024;
/// Range of `retention_days` of a source.
pub const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=365;
/// `retention_days` of a source that does not set it.
pub const RETENTION_DAYS_DEFAULT: u32 = 30;
/// Largest body of a source's own answer, in bytes.
pub const RESPONSE_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most destinations of one source: what one accept can fan out to in one commit.
pub const DESTINATIONS_PER_SOURCE_MAX: usize = 1000;
/// Longest span a `text` search covers.
pub const TEXT_SEARCH_SPAN_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The span of a `text` search that names none.
pub const TEXT_SEARCH_SPAN_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Items on a page of a list, unless the caller asks otherwise.
pub const PAGE_DEFAULT: usize = 25;
/// Most items on a page of a list.
pub const PAGE_MAX: usize = 100;
/// Most webhooks of one workspace: what one event can fan out to.
pub const WEBHOOKS_PER_WORKSPACE_MAX: usize = 1000;
/// `timeout_seconds` of a webhook that does not set it.
pub const TIMEOUT_SECONDS_WEBHOOK: u32 = 15;
/// How long a replaced signing secret goes on signing beside the new one.
pub const SECRET_OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// Most secrets of a webhook that sign at the same time.
pub const SECRETS_MAX: usize = 5;
/// How long attempts to webhooks are kept.
pub const ATTEMPTS_KEPT: Duration = Duration::from_secs(3 * 24 * 3600);
/// Most events of one replay.
pub const REPLAY_EVENTS_MAX: usize = 10_000;
/// Replays of webhooks that a workspace may ask for in a UTC day.
pub const REPLAYS_PER_DAY_MAX: u32 = 20;
/// A key of a publishing call is held for at least so long.
pub const IDEMPOTENCY_KEPT_MIN: Duration = Duration::from_secs(24 * 3600);
/// Longest type of an event and longest filter of a webhook, in bytes; both are ASCII.
pub const EVENT_TYPE_BYTES_MAX: usize = 128;
/// Largest body of an event as receivers get it, in bytes (256 KiB).
pub const EVENT_BODY_BYTES_MAX: usize = 256 * 1024;
/// Most events of one batch.
pub const EVENTS_PER_BATCH_MAX: usize = 500;
/// Largest body of a call that publishes a batch, in bytes (8 MiB).
pub const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Range of the number of a webhook's `events`.
pub const FILTERS_PER_WEBHOOK: std::ops::RangeInclusive<usize> = 1..=100;
/// Longest description of a webhook, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 256;
/// Longest idempotency key, in characters; the shortest has one.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;
/// Deepest nesting of JSON that is canonicalised or compacted, in levels of lists and objects.
pub const JSON_DEPTH_MAX: usize = 128;
/// Attempts to the mailboxes of one domain at the same time, for each workspace.
pub const MAIL_IN_FLIGHT_DEFAULT: u32 = 20;
/// Most entries of each of `to`, `cc`, `bcc` and `reply_to` of an email.
pub const RECIPIENTS_MAX: usize = 50;
/// Longest address of a mailbox, in bytes: a path of 256 less its angle brackets (RFC 5321, 4.5.3.1.3).
pub const ADDRESS_BYTES_MAX: usize = 254;
/// Longest part of an address before the `@`, in bytes (RFC 5321, 4.5.3.1.1).
pub const LOCAL_PART_BYTES_MAX: usize = 64;
/// Longest name that stands beside an address, in characters.
pub const DISPLAY_NAME_CHARS_MAX: usize = 256;
/// Longest subject of an email, in characters.
pub const SUBJECT_CHARS_MAX: usize = 998;
/// Longest `html` and longest `text` of an email, in bytes (512 KiB each).
pub const EMAIL_TEXT_BYTES_MAX: usize = 512 * 1024;
/// Most headers of its own that an email may set.
pub const EMAIL_HEADERS_MAX: usize = 50;
/// Longest line of a header, name and value together, in bytes without the line break (RFC 5322, 2.1.1).
pub const EMAIL_HEADER_LINE_BYTES_MAX: usize = 998;
/// Most attachments of an email.
pub const ATTACHMENTS_MAX: usize = 20;
/// Longest name of an attached file, in characters.
pub const FILENAME_CHARS_MAX: usize = 255;
/// Longest `content_id` of an attachment, in characters.
pub const CONTENT_ID_CHARS_MAX: usize = 255;
/// Largest email: `html`, `text` and the decoded attachments together, in bytes (25 MiB).
pub const EMAIL_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Largest body of a call that sends emails, in bytes (40 MiB).
pub const EMAIL_REQUEST_BYTES_MAX: usize = 40 * 1024 * 1024;
/// Most tags of an email.
pub const TAGS_MAX: usize = 50;
/// Longest name and longest value of a tag, in characters; the shortest has one.
pub const TAG_CHARS_MAX: usize = 256;
/// Largest `metadata` of an email, in bytes of its canonical form (16 KiB): every event of the email carries it.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// How far ahead an email may be scheduled.
pub const SCHEDULED_AHEAD_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// Most emails of one batch.
pub const EMAILS_PER_BATCH_MAX: usize = 100;
/// Range of `dedupe.hours` of a source: for how long a value is known.
pub const DEDUPE_HOURS: std::ops::RangeInclusive<u32> = 1..=8760;
/// Longest JSON pointer of a source's `dedupe`, in bytes.
pub const JSON_POINTER_BYTES_MAX: usize = 256;
/// Longest name of a header that a source looks into, in bytes.
pub const HEADER_NAME_BYTES_MAX: usize = 128;
/// How far the time of a signature may lie from ours, to either side.
pub const SIGNATURE_TOLERANCE: Duration = Duration::from_secs(300);
/// Range of the number of secrets that a source's requests may be signed with.
pub const VERIFICATION_SECRETS: std::ops::RangeInclusive<usize> = 1..=5;
/// Longest secret that a source's requests are signed with, in bytes.
pub const VERIFICATION_SECRET_BYTES_MAX: usize = 512;
