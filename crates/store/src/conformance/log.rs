//! Promises of [`Store::attempts`](crate::Store::attempts), the log of a webhook.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use restante_core::id::{DeliveryId, WebhookId};
use restante_core::limits::ATTEMPTS_KEPT;
use restante_core::{Outcome, Timestamp};

use super::{World, failed, ok, started};
use crate::row::{LogFilter, LogPlace, LogStatus, Logged, Trigger};
use crate::{Parcel, Settled};

const HOUR_MS: u64 = 3_600_000;

/// A page of a log, and where to go on.
async fn page(
    world: &World,
    webhook: WebhookId,
    filter: LogFilter,
    behind: Option<LogPlace>,
    limit: usize,
) -> (Vec<Logged>, Option<LogPlace>) {
    world.store.attempts(world.workspace, webhook, filter, behind, limit, world.now).await.unwrap().unwrap()
}

/// All of a log, page by page.
async fn pages(world: &World, webhook: WebhookId, filter: LogFilter, limit: usize) -> Vec<Logged> {
    let (mut lines, mut behind) = (Vec::new(), None);
    for _ in 0..10_000 {
        let (more, next) = page(world, webhook, filter, behind, limit).await;
        assert!(more.len() <= limit);
        lines.extend(more);
        match next {
            Some(_) => behind = next,
            None => return lines,
        }
    }
    panic!("the log has no end");
}

async fn all(world: &World, webhook: WebhookId) -> Vec<Logged> {
    pages(world, webhook, LogFilter::default(), 100).await
}

fn of_status(status: LogStatus) -> LogFilter {
    LogFilter { status: Some(status), ..LogFilter::default() }
}

/// A line, told by its delivery and number.
fn short(lines: &[Logged]) -> Vec<(DeliveryId, u32)> {
    lines.iter().map(|line| (line.delivery, line.attempt.number)).collect()
}

/// Settles an attempt that started at `started_at` and ends now.
async fn settle_from(world: &World, parcel: &Parcel, started_at: Timestamp, outcome: Outcome) {
    let mut finished = world.finished(parcel, outcome);
    finished.attempt.started_at = started_at;
    let settled = world.store.settle(vec![finished]).await.unwrap().remove(0);
    assert!(matches!(settled, Settled::Done(_)));
}

pub async fn every_attempt_is_a_line(mut world: World) {
    let webhook = world.webhook().await;
    let at_once = world.emit().await;
    world.settle(&at_once, Outcome::of_status(204, None)).await;
    let fails = world.emit().await;
    world.settle(&fails, failed()).await;
    let lost = world.emit().await;
    world.settle(&lost, Outcome::Lost).await;
    let unresolved = Outcome::failed(restante_core::FailureKind::Dns, "no such name");
    world.claim_and_settle(unresolved).await;
    let born = world.emit().await;
    world.pass(100_000);
    let mut claimed = world.claim_all().await;
    claimed.sort_by_key(|it| it.lease.delivery);
    let [again, third] = &claimed[..] else { panic!("{} are due", claimed.len()) };

    let lines = all(&world, webhook).await;
    let id = |parcel: &Parcel| parcel.lease.delivery;
    let expected = [
        (id(third), 3),
        (id(again), 2),
        (id(&born), 1),
        (id(&lost), 2),
        (id(&lost), 1),
        (id(&fails), 1),
        (id(&at_once), 1),
    ];
    assert_eq!(short(&lines), expected);
    assert_eq!((lines[6].event, lines[6].event_type.as_str()), (at_once.event(), "order.paid"));
    for line in &lines {
        let delivery = world.delivery(line.delivery).await;
        let attempt = delivery.attempts.iter().find(|it| it.number == line.attempt.number);
        assert_eq!(attempt, Some(&line.attempt), "as the delivery tells it");
    }
    let kinds: Vec<_> = lines
        .iter()
        .map(|line| line.attempt.result.as_ref().map(|it| (it.delivered, it.lost, it.status)))
        .collect();
    let failed_as = |lost, status| Some((false, lost, status));
    let results = [
        None,
        None,
        None,
        failed_as(false, None),
        failed_as(true, None),
        failed_as(false, Some(500)),
        Some((true, false, Some(204))),
    ];
    assert_eq!(kinds, results);
}

pub async fn a_status_picks_lines(mut world: World) {
    let webhook = world.webhook().await;
    let delivered = world.emit_and_settle(ok()).await.lease.delivery;
    let fails = world.emit_and_settle(failed()).await.lease.delivery;
    let lost = world.emit_and_settle(Outcome::Lost).await.lease.delivery;
    world.claim_all().await;
    let born = world.emit().await.lease.delivery;
    let table = [
        (LogStatus::Pending, vec![(born, 1), (lost, 2)]),
        (LogStatus::Delivered, vec![(delivered, 1)]),
        (LogStatus::Failed, vec![(lost, 1), (fails, 1)]),
    ];
    for (status, mut expected) in table {
        for limit in [1, 100] {
            let mut lines = short(&pages(&world, webhook, of_status(status), limit).await);
            // Two that began in the same millisecond.
            lines.sort_unstable();
            expected.sort_unstable();
            assert_eq!(lines, expected, "{status:?}");
        }
    }
}

pub async fn the_bounds_are_strict(mut world: World) {
    let webhook = world.webhook().await;
    let first = world.now;
    let mut deliveries = Vec::new();
    for outcome in [ok(), failed(), ok(), failed(), ok()] {
        let parcel = world.emit().await;
        deliveries.push(parcel.lease.delivery);
        settle_from(&world, &parcel, world.now, outcome).await;
        world.pass(1);
    }
    let at = |index: u64| Some(first + Duration::from_millis(index));
    let table = [
        (None, None, 0..5),
        (at(0), None, 1..5),
        (None, at(4), 0..4),
        (at(0), at(4), 1..4),
        (at(1), at(3), 2..3),
        (at(2), at(3), 0..0),
        (at(3), at(1), 0..0),
        (at(4), None, 0..0),
    ];
    for (after, before, expected) in table {
        let filter = LogFilter { after, before, status: None };
        let lines = short(&pages(&world, webhook, filter, 2).await);
        let expected: Vec<_> = deliveries[expected].iter().rev().map(|it| (*it, 1)).collect();
        assert_eq!(lines, expected, "{filter:?}");
    }
}

pub async fn pages_have_neither_gaps_nor_repeats(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let mut expected = Vec::new();
    for _ in 0..4 {
        // Several start in the same millisecond; some of them are told by their delivery alone.
        for outcome in [ok(), failed(), ok(), Outcome::Lost] {
            let parcel = world.emit().await;
            settle_from(&world, &parcel, world.now, outcome).await;
            expected.insert(0, (parcel.lease.delivery, 1));
        }
        for parcel in world.claim_all().await {
            settle_from(&world, &parcel, world.now, failed()).await;
            expected.insert(0, (parcel.lease.delivery, parcel.lease.attempt));
        }
        world.pass(1);
    }
    let lines = all(&world, webhook).await;
    let mut sorted = lines.clone();
    sorted
        .sort_by_key(|line| std::cmp::Reverse((line.attempt.started_at, line.delivery, line.attempt.number)));
    assert_eq!(short(&lines), short(&sorted));
    let mut known = short(&lines);
    known.sort_unstable();
    expected.sort_unstable();
    assert_eq!(known, expected);
    for limit in [1, 2, 3, 5, 19, 20, 21] {
        assert_eq!(pages(&world, webhook, LogFilter::default(), limit).await, lines, "{limit} on a page");
    }
}

pub async fn pages_stay_put_while_newer_attempts_come(mut world: World) {
    let webhook = world.webhook().await;
    for outcome in [ok(), failed(), ok(), ok()] {
        world.emit_and_settle(outcome).await;
    }
    let before = all(&world, webhook).await;
    let (first, next) = page(&world, webhook, LogFilter::default(), None, 2).await;
    assert_eq!(first, before[..2]);
    for _ in 0..3 {
        world.emit_and_settle(ok()).await;
    }
    let (second, next) = page(&world, webhook, LogFilter::default(), next, 2).await;
    assert_eq!((&second[..], next), (&before[2..], None));
}

pub async fn a_first_attempt_that_started_late_is_where_it_started(mut world: World) {
    let webhook = world.webhook().await;
    // One of them began at birth but dialled late, the other waited in the table.
    let born = world.emit().await;
    let waits = world.emit_unattempted().await;
    world.pass(10_000);
    let between = world.emit().await;
    settle_from(&world, &between, world.now, ok()).await;
    world.pass(10_000);
    let late = world.now;
    let claimed = world.claim_all().await.remove(0);
    assert_eq!(claimed.event(), waits);
    world.pass(100);
    settle_from(&world, &claimed, late, ok()).await;
    world.pass(100);
    settle_from(&world, &born, late + Duration::from_millis(1), ok()).await;
    let expected = [born.lease.delivery, claimed.lease.delivery, between.lease.delivery].map(|it| (it, 1));
    for limit in [1, 2, 100] {
        let lines = pages(&world, webhook, LogFilter::default(), limit).await;
        assert_eq!(short(&lines), expected);
        assert!(lines.iter().all(|line| line.attempt.result.as_ref().unwrap().delivered));
    }
    let after = LogFilter { after: Some(late), ..LogFilter::default() };
    assert_eq!(short(&pages(&world, webhook, after, 9).await), expected[..1]);
    let before = LogFilter { before: Some(late), ..LogFilter::default() };
    assert_eq!(short(&pages(&world, webhook, before, 9).await), expected[2..]);
}

pub async fn nothing_older_than_three_days_is_listed(mut world: World) {
    let webhook = world.one_try_webhook().await;
    let begin = world.now;
    let mut old = Vec::new();
    for outcome in [ok(), failed(), ok(), failed()] {
        let parcel = world.emit().await;
        settle_from(&world, &parcel, world.now, outcome).await;
        old.push((parcel.lease.delivery, 1));
        world.pass(1);
    }
    for round in 0..=4 {
        world.now = begin + ATTEMPTS_KEPT + Duration::from_millis(round) - Duration::from_millis(1);
        let expected: Vec<_> = old[round as usize..].iter().rev().copied().collect();
        for _ in 0..2 {
            assert_eq!(short(&all(&world, webhook).await), expected, "round {round}");
            world.prune().await;
        }
    }
    for (delivery, _) in old {
        let shown = world.delivery(delivery).await;
        assert!(
            shown.life.state.is_final() && shown.attempts.is_empty(),
            "deliveries keep their final state"
        );
        assert_eq!((shown.life.attempts_made, shown.life.attempts_used), (1, 1));
    }
}

pub async fn a_log_is_of_one_webhook(mut world: World) {
    let first = world.webhook_for(&["order.*"]).await;
    let second = world.webhook_for(&["order.*", "invoice.*"]).await;
    world.publish("order.paid").await;
    for parcel in world.tray.take() {
        world.settle(&parcel, ok()).await;
    }
    world.publish("invoice.sent").await;
    let (lines, theirs) = (all(&world, first).await, all(&world, second).await);
    assert_eq!((lines.len(), theirs.len()), (1, 2));
    assert!(theirs.iter().all(|line| line.delivery != lines[0].delivery));
    let other = world.new_workspace("second").await;
    let (store, now, filter) = (&world.store, world.now, LogFilter::default());
    assert!(store.attempts(other, first, filter, None, 9, now).await.unwrap().is_none());
    let unknown = WebhookId::from_uuid(7);
    assert!(store.attempts(world.workspace, unknown, filter, None, 9, now).await.unwrap().is_none());
    world.delete_webhook(first).await;
    assert!(world.store.attempts(world.workspace, first, filter, None, 9, now).await.unwrap().is_none());
}

pub async fn a_clock_that_went_back_hides_nothing(mut world: World) {
    let webhook = world.webhook().await;
    let delivered = world.emit_and_settle(ok()).await;
    let fails = world.emit_and_settle(failed()).await;
    let spans = world.emit().await;
    world.now = world.now - Duration::from_millis(2 * HOUR_MS);
    let expected = [&spans, &fails, &delivered].map(|it| (it.lease.delivery, 1));
    assert_eq!(short(&all(&world, webhook).await), expected);
    // It began before the clock went back, as its row says, and is said to have started after.
    settle_from(&world, &spans, world.now, ok()).await;
    let expected = [&fails, &delivered, &spans].map(|it| (it.lease.delivery, 1));
    let after = world.emit().await;
    world.pass(500);
    settle_from(&world, &after, world.now, ok()).await;
    let lines = short(&all(&world, webhook).await);
    assert_eq!(lines[..2], expected[..2]);
    assert_eq!(lines[2..], [(after.lease.delivery, 1), expected[2]]);
    for limit in [1, 2, 3] {
        assert_eq!(short(&pages(&world, webhook, LogFilter::default(), limit).await), lines);
    }
    let before = LogFilter { before: Some(world.now), ..LogFilter::default() };
    assert_eq!(short(&pages(&world, webhook, before, 2).await), expected[2..]);
}

pub async fn a_log_is_what_happened(world: World) {
    Run::new(world, 0x5eed).await.go(260, false).await;
}

pub async fn a_log_is_what_happened_also_when_the_clock_goes_back(world: World) {
    Run::new(world, 0xc10c).await.go(260, true).await;
}

/// Random numbers that are the same each time.
struct Dice(u64);

impl Dice {
    /// 0 to `sides - 1`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A line as it should be: when it started, how it stands, what made it begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    started_at: Timestamp,
    status: LogStatus,
    trigger: Trigger,
}

/// Things that happen to one webhook, and what its log should be.
struct Run {
    world: World,
    dice: Dice,
    webhook: WebhookId,
    held: Vec<Parcel>,
    deliveries: Vec<DeliveryId>,
    /// By delivery and number.
    lines: BTreeMap<(DeliveryId, u32), Line>,
    /// When the latest attempt of each ended.
    ended: HashMap<DeliveryId, Timestamp>,
}

impl Run {
    async fn new(mut world: World, seed: u64) -> Self {
        let webhook = world.webhook().await;
        world.webhook_for(&["invoice.*"]).await;
        let (held, deliveries) = (Vec::new(), Vec::new());
        let (lines, ended) = (BTreeMap::new(), HashMap::new());
        Self { world, dice: Dice(seed), webhook, held, deliveries, lines, ended }
    }

    async fn go(mut self, steps: usize, clock_goes_back: bool) {
        for step in 0..steps {
            if self.dice.roll(20) == 0 {
                self = self.crash().await;
            } else {
                self.act(clock_goes_back).await;
            }
            self.take_in().await;
            if step % 4 == 0 {
                self.check().await;
            }
        }
        assert!(self.lines.len() > steps / 8, "something happened: {}", self.lines.len());
    }

    async fn act(&mut self, clock_goes_back: bool) {
        match self.dice.roll(19) {
            0..5 => {
                for _ in 0..=self.dice.roll(3) {
                    self.world.publish("order.paid").await;
                }
            }
            5..11 => self.settle().await,
            11..14 => {
                let most = 1 + self.dice.roll(4) as usize;
                self.world.claim_up_to(most).await;
            }
            14 => self.release().await,
            15 => self.replay().await,
            16 => {
                let millis = [1, 1900, 2100, 5000, HOUR_MS, 20 * HOUR_MS][self.dice.roll(6) as usize];
                self.world.pass(millis);
            }
            17 => self.narrow(),
            18 if clock_goes_back => {
                let millis = [1, 500, 5000, HOUR_MS][self.dice.roll(4) as usize];
                self.world.now = self.world.now - Duration::from_millis(millis);
            }
            _ => self.world.prune().await,
        }
    }

    /// Takes in what was leased.
    async fn take_in(&mut self) {
        for parcel in self.world.tray.take() {
            let key = (parcel.lease.delivery, parcel.lease.attempt);
            let shown = self.world.delivery(parcel.lease.delivery).await;
            let trigger = shown.attempts.last().unwrap().trigger;
            let line = Line { started_at: parcel.claimed_at, status: LogStatus::Pending, trigger };
            self.lines.insert(key, line);
            self.held.push(parcel);
        }
    }

    fn pick(&mut self) -> Option<Parcel> {
        let many = self.held.len() as u64;
        (many > 0).then(|| self.held.swap_remove(self.dice.roll(many) as usize))
    }

    async fn settle(&mut self) {
        let Some(parcel) = self.pick() else { return };
        let earliest = parcel.claimed_at.max(self.world.now - Duration::from_millis(3000));
        self.world.pass([0, 3, 700, 2500][self.dice.roll(4) as usize]);
        let span = self.world.now.since(earliest).as_millis() as u64;
        let started_at = earliest + Duration::from_millis(self.dice.roll(span + 1));
        let (outcome, status) = match self.dice.roll(5) {
            0..3 => (ok(), LogStatus::Delivered),
            3 => (failed(), LogStatus::Failed),
            _ => (Outcome::Lost, LogStatus::Failed),
        };
        settle_from(&self.world, &parcel, started_at, outcome).await;
        self.end(&parcel, started_at, self.world.now, status);
    }

    /// Notes the end of an attempt: it never starts before the one before ended.
    fn end(&mut self, parcel: &Parcel, started_at: Timestamp, ended_at: Timestamp, status: LogStatus) {
        let delivery = parcel.lease.delivery;
        let before = self.ended.get(&delivery).copied().unwrap_or(started_at);
        let line = self.lines.get_mut(&(delivery, parcel.lease.attempt)).unwrap();
        (line.started_at, line.status) = (started_at.max(before), status);
        self.ended.insert(delivery, started_at.max(before) + ended_at.since(started_at));
        if !self.deliveries.contains(&delivery) {
            self.deliveries.push(delivery);
        }
    }

    async fn release(&mut self) {
        let Some(parcel) = self.pick() else { return };
        self.world.release(parcel.lease).await;
        self.lines.remove(&(parcel.lease.delivery, parcel.lease.attempt));
    }

    async fn replay(&mut self) {
        let many = self.deliveries.len() as u64;
        if many > 0 {
            let delivery = self.deliveries[self.dice.roll(many) as usize];
            started(self.world.replay_one(self.webhook, delivery).await);
        }
    }

    fn narrow(&mut self) {
        let leases = 1 + self.dice.roll(8) as u32;
        if let Some(parcel) = self.held.first() {
            parcel.endpoint.set_leases_max(leases);
        }
    }

    /// The process dies: what was in flight is lost.
    async fn crash(self) -> Self {
        let (now, held) = (self.world.now, self.held);
        let world = self.world.crash().await;
        world.store.take_over(now).await.unwrap();
        let mut run = Self { world, held: Vec::new(), ..self };
        for parcel in held {
            run.end(&parcel, parcel.claimed_at, now.max(parcel.claimed_at), LogStatus::Failed);
        }
        run
    }

    /// Compares the log with what it should be, under a filter and with pages of some size.
    async fn check(&mut self) {
        let status = [None, Some(LogStatus::Pending), Some(LogStatus::Delivered), Some(LogStatus::Failed)];
        let filters = [
            LogFilter { status: status[self.dice.roll(4) as usize], ..LogFilter::default() },
            LogFilter { after: self.moment(), before: self.moment(), ..LogFilter::default() },
            LogFilter::default(),
        ];
        for filter in filters {
            let limit = 1 + self.dice.roll(30) as usize;
            let lines = pages(&self.world, self.webhook, filter, limit).await;
            let shown: Vec<_> =
                lines.iter().map(|line| (line.delivery, line.attempt.number, seen(line))).collect();
            assert_eq!(shown, self.expected(filter), "{filter:?}, {limit} on a page");
        }
    }

    /// The start of some attempt, or a moment close to it.
    fn moment(&mut self) -> Option<Timestamp> {
        let index = self.dice.roll(1 + self.lines.len() as u64) as usize;
        let started_at = self.lines.values().nth(index)?.started_at;
        Some(started_at + Duration::from_millis(self.dice.roll(2)))
    }

    fn expected(&self, filter: LogFilter) -> Vec<(DeliveryId, u32, Line)> {
        let kept_from = self.world.now - ATTEMPTS_KEPT + Duration::from_millis(1);
        let mut lines: Vec<_> = self
            .lines
            .iter()
            .filter(|(_, line)| {
                line.started_at >= kept_from
                    && filter.after.is_none_or(|after| after < line.started_at)
                    && filter.before.is_none_or(|before| line.started_at < before)
                    && filter.status.is_none_or(|status| status == line.status)
            })
            .map(|((delivery, number), line)| (*delivery, *number, *line))
            .collect();
        lines
            .sort_by_key(|(delivery, number, line)| std::cmp::Reverse((line.started_at, *delivery, *number)));
        lines
    }
}

fn seen(line: &Logged) -> Line {
    let status = match &line.attempt.result {
        None => LogStatus::Pending,
        Some(result) if result.delivered => LogStatus::Delivered,
        Some(_) => LogStatus::Failed,
    };
    Line { started_at: line.attempt.started_at, status, trigger: line.attempt.trigger }
}
