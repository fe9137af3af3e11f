//! How long things took, in buckets that grow with what they hold.

#[cfg(test)]
mod tests;

/// The longest time that is told apart from longer ones: 48 hours.
const LONGEST_MS: u64 = 48 * 3600 * 1000;
/// Buckets to each doubling, as a power of two. What lies in the middle of one differs from all that is in it by less
/// than 7 %.
const FINE_BITS: u32 = 3;

/// Counts of durations in milliseconds, up to 48 hours; longer ones count as that.
///
/// Times below 16 ms are kept as they are, those above in eight buckets to each doubling. Only buckets that hold
/// something take room: a few bytes each, written down two or three.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket and count, in the order of the buckets; no count is 0.
    counts: Vec<(u8, u64)>,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration_ms: u64) {
        self.add(bucket(duration_ms), 1);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.counts {
            self.add(*bucket, *count);
        }
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The duration in milliseconds that `percent` of all do not exceed, by nearest rank; `None` when nothing was
    /// counted.
    pub fn percentile(&self, percent: u32) -> Option<u64> {
        let rank = (u128::from(self.count()) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        self.counts.iter().find_map(|(bucket, count)| {
            seen += u128::from(*count);
            (seen >= rank).then(|| middle(*bucket))
        })
    }

    /// As it is stored: for each bucket how far it is behind the one before, and its count, both as LEB128.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.counts.len() * 2);
        let mut last = 0;
        for (bucket, count) in &self.counts {
            write_number(u64::from(bucket - last), &mut bytes);
            write_number(*count, &mut bytes);
            last = *bucket;
        }
        bytes
    }

    /// Reads what [`Histogram::encode`] wrote; `None` for anything else.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut counts: Vec<(u8, u64)> = Vec::with_capacity(bytes.len() / 2);
        while !bytes.is_empty() {
            let (step, count) = (read_number(&mut bytes)?, read_number(&mut bytes)?);
            let last = counts.last().map(|(bucket, _)| *bucket);
            let bucket =
                u64::from(last.unwrap_or(0)).checked_add(step).and_then(|it| u8::try_from(it).ok())?;
            let rises = last.is_none_or(|last| bucket > last);
            if !rises || bucket > self::bucket(LONGEST_MS) || count == 0 {
                return None;
            }
            counts.push((bucket, count));
        }
        Some(Self { counts })
    }

    fn add(&mut self, bucket: u8, count: u64) {
        match self.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(count),
            Err(at) => self.counts.insert(at, (bucket, count)),
        }
    }
}

/// The bucket of a duration: its position is that of the highest bit, then the three bits behind it.
fn bucket(duration_ms: u64) -> u8 {
    let duration_ms = duration_ms.min(LONGEST_MS);
    let shift = duration_ms.max(1).ilog2().saturating_sub(FINE_BITS);
    let index = (u64::from(shift) << FINE_BITS) + (duration_ms >> shift);
    u8::try_from(index).expect("48 hours are in bucket 202")
}

/// What lies in the middle of a bucket.
fn middle(bucket: u8) -> u64 {
    let fine = 1 << FINE_BITS;
    let shift = (u64::from(bucket) >> FINE_BITS).saturating_sub(1);
    let first = (u64::from(bucket) - shift * fine) << shift;
    first + (1 << shift >> 1)
}

fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(number & 0x7f).expect("seven bits fit");
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

/// The number at the start of `bytes`, which then begin behind it; `None` if there is none or it is written otherwise
/// than [`write_number`] does.
fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if low.checked_shl(shift)? >> shift != low {
            return None;
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return (low != 0 || shift == 0).then_some(number);
        }
    }
    None
}
