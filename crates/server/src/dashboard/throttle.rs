//! Slows down who guesses keys.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// So many failed tries an address has …
const FAILURES_MAX: u32 = 10;
/// … within this time from the first of them.
const WINDOW: Duration = Duration::from_secs(300);
/// Addresses that are remembered at once. When there are more the oldest window is forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// Failed tries to sign in, by address. Keys are far too long to be guessed; this keeps the log readable and the hashes
/// few, and each node counts its own.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<IpAddr, Tries>>);

#[derive(Debug, Clone, Copy)]
struct Tries {
    since: Duration,
    failures: u32,
}

impl Throttle {
    /// # Errors
    /// How long the address has to wait.
    pub(super) fn check(&self, address: IpAddr, now: Duration) -> Result<(), Duration> {
        let tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tries.get(&network(address)) {
            Some(tries) if tries.failures >= FAILURES_MAX => {
                let left = (tries.since + WINDOW).saturating_sub(now);
                if left.is_zero() { Ok(()) } else { Err(left) }
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Counts a failed try.
    pub(super) fn fail(&self, address: IpAddr, now: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Tries { since: now, failures: 0 };
        let address = network(address);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            let oldest = all.iter().min_by_key(|(_, tries)| tries.since).map(|(address, _)| *address);
            oldest.map(|oldest| all.remove(&oldest));
        }
        let tries = all.entry(address).or_insert(fresh);
        if now.saturating_sub(tries.since) >= WINDOW {
            *tries = fresh;
        }
        tries.failures += 1;
    }
}

/// Who has an IPv6 address has at least the 2^64 around it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ten_failures_close_an_address_for_the_rest_of_its_window() {
        let throttle = Throttle::default();
        let at = Duration::from_secs;
        for second in 0..10 {
            assert_eq!(throttle.check(ip("192.0.2.1"), at(second)), Ok(()));
            throttle.fail(ip("192.0.2.1"), at(second));
        }
        assert_eq!(throttle.check(ip("192.0.2.1"), at(10)), Err(at(290)));
        assert_eq!(throttle.check(ip("192.0.2.2"), at(10)), Ok(()));
        assert_eq!(throttle.check(ip("192.0.2.1"), at(300)), Ok(()));
        throttle.fail(ip("192.0.2.1"), at(300));
        assert_eq!(throttle.check(ip("192.0.2.1"), at(301)), Ok(()));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let throttle = Throttle::default();
        for host in 1..=10 {
            throttle.fail(ip(&format!("2001:db8::{host}")), Duration::ZERO);
        }
        assert!(throttle.check(ip("2001:db8::ffff"), Duration::ZERO).is_err());
        assert!(throttle.check(ip("2001:db8:0:1::1"), Duration::ZERO).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        for number in 0..=u32::try_from(ADDRESSES_MAX).unwrap() {
            throttle.fail(IpAddr::V4(number.into()), Duration::from_millis(number.into()));
        }
        assert_eq!(throttle.0.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
