//! Emails, from the call to a mail server: Postfix's `smtp-sink`, which takes everything and keeps nothing.
//!
//! The ceiling is `smtp-source` straight to the same sink, with texts of the same size, over as many conversations as the
//! server may have with one domain. It keeps each conversation to the end and makes nothing durable.

use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tokio::time::sleep;

use crate::body::{MAIL_DOMAINS, Post};
use crate::clock;
use crate::load::per_second;
use crate::pipeline::flow::{Flow, WARM_UP_SECONDS, cpu_us_per_message};
use crate::pipeline::postfix::{MailSink, Programs};
use crate::pipeline::scale::STILL_MAX;
use crate::pipeline::server::Server;
use crate::pipeline::statistics::{median, ratio};
use crate::pipeline::{Bench, progress};

/// Emails on their way to one domain at the same time, and conversations of the ceiling.
const IN_FLIGHT: usize = 64;
/// Pause between two looks at the emails that the server has.
const LOOK_EVERY: Duration = Duration::from_millis(200);

#[derive(Serialize)]
pub(crate) struct Mail {
    /// Domains that the emails go to in turn, each a lane of its own.
    domains: u64,
    /// Emails on their way to one of them at most, unless `server_env` says otherwise; and conversations of the ceiling.
    in_flight: usize,
    /// Median over the rounds: durable accepts, deliveries beside them.
    accepts_per_second: Option<f64>,
    /// Median over the rounds: deliveries over the time from the first call to the last arrival.
    deliveries_per_second: Option<f64>,
    /// Median over the rounds: the ceiling.
    sink_ceiling_per_second: Option<f64>,
    /// Median over the rounds: deliveries to the ceiling.
    ratio: Option<f64>,
    /// Acknowledged emails that did not arrive, or that the server does not know to have arrived.
    pub(in crate::pipeline) lost: u64,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    /// Of the deliveries to the mean of the two ceilings beside it.
    ratio: f64,
    ceiling_before: f64,
    ceiling_after: f64,
    /// Conversations that ended until the last mail had arrived: as many as mails when none is used again.
    conversations: u64,
    /// `delivered` are the emails that the server has as sent, each counted once; what the sink has beyond what was
    /// acknowledged are duplicates.
    #[serde(flatten)]
    flow: Flow,
}

pub(in crate::pipeline) async fn measure(bench: &Bench, programs: &Programs) -> Result<Mail> {
    let sink = programs.sink(bench.directory.path()).await?;
    let (mut rounds, mut ceilings) = (Vec::new(), vec![ceiling(bench, programs, &sink, None).await?]);
    for number in 1..=bench.scale.rounds {
        progress(&format!("mail, round {number} of {}", bench.scale.rounds))?;
        let ceiling_before = ceilings[number - 1];
        let (flow, conversations) = round(bench, &sink).await?;
        let ceiling_after = ceiling(bench, programs, &sink, Some(ceiling_before)).await?;
        ceilings.push(ceiling_after);
        let ratio = ratio(flow.deliveries_per_second, f64::midpoint(ceiling_before, ceiling_after));
        progress(&format!(
            "  {:.0} accepts/s, {:.0} deliveries/s, ratio {ratio:.3}, {conversations} conversations, lost {}",
            flow.acks_per_second, flow.deliveries_per_second, flow.lost
        ))?;
        rounds.push(Round { ratio, ceiling_before, ceiling_after, conversations, flow });
    }
    Ok(Mail {
        domains: MAIL_DOMAINS,
        in_flight: IN_FLIGHT,
        accepts_per_second: median(rounds.iter().map(|round| round.flow.acks_per_second)),
        deliveries_per_second: median(rounds.iter().map(|round| round.flow.deliveries_per_second)),
        sink_ceiling_per_second: median(ceilings),
        ratio: median(rounds.iter().map(|round| round.ratio)),
        lost: rounds.iter().map(|round| round.flow.lost).sum(),
        rounds,
    })
}

async fn ceiling(bench: &Bench, programs: &Programs, sink: &MailSink, guess: Option<f64>) -> Result<f64> {
    let seconds = bench.scale.ceiling_seconds;
    let ceiling = programs.ceiling(sink, IN_FLIGHT, bench.body_bytes, seconds, guess).await?;
    progress(&format!("  smtp-source to smtp-sink {ceiling:.0}/s"))?;
    Ok(ceiling)
}

/// One round on an empty store, and the conversations it took. What was lost of the warm-up counts too.
async fn round(bench: &Bench, sink: &MailSink) -> Result<(Flow, u64)> {
    let settings = vec![
        ("RESTANTE_SMTP_URL", format!("smtp://{}", sink.address)),
        ("RESTANTE_MAIL_IN_FLIGHT", IN_FLIGHT.to_string()),
        // A failed attempt is repeated before the wait for it ends.
        ("RESTANTE_MAIL_WAITS_SECONDS", "1,1,2,4".to_owned()),
    ];
    let mut server = Server::start_with(bench, settings).await?;
    let seconds = bench.scale.seconds;
    let (warm_up, _) = flow(bench, &mut server, sink, WARM_UP_SECONDS.min(seconds), 0).await?;
    let (mut flow, conversations) = flow(bench, &mut server, sink, seconds, warm_up.delivered).await?;
    flow.lost += warm_up.lost;
    server.discard().await?;
    Ok((flow, conversations))
}

/// `sent_before`: emails that the server has sent before.
async fn flow(
    bench: &Bench,
    server: &mut Server,
    sink: &MailSink,
    seconds: f64,
    sent_before: u64,
) -> Result<(Flow, u64)> {
    let (before, cpu_before) = (sink.counters()?, server.cpu()?);
    let url = format!("http://{}/v1/emails", server.address);
    let report = bench.calls(url, Post::Email, seconds).run().await?;
    let arrived = sink.wait_for(before.mails + report.acknowledged).await?;
    let arrivals = arrived.counters.mails - before.mails;
    let cpu = server.cpu()?.saturating_sub(cpu_before);
    let sent = wait_for_sent(server, sent_before + report.acknowledged).await? - sent_before;
    let drain_us = arrived.last_us.saturating_sub(report.last_answer_us);
    let flow = Flow {
        sent: report.sent,
        acknowledged: report.acknowledged,
        refused: report.sent - report.acknowledged,
        acks_per_second: report.acks_per_second,
        ack: report.ack,
        delivered: sent,
        duplicates: arrivals.saturating_sub(report.acknowledged),
        lost: report.acknowledged.saturating_sub(sent.min(arrivals)),
        deliveries_per_second: per_second(sent.min(arrivals), report.first_sent_us, arrived.last_us),
        drain_seconds: Duration::from_micros(drain_us).as_secs_f64(),
        peak_bytes: server.memory()?.peak_bytes,
        cpu_us_per_message: cpu_us_per_message(cpu, &report),
    };
    Ok((flow, arrived.counters.conversations - before.conversations))
}

/// The emails that the server has as sent, once that are `count`, or once there were no more of them for [`STILL_MAX`].
async fn wait_for_sent(server: &mut Server, count: u64) -> Result<u64> {
    let (mut sent, mut since) = (server.emails_sent().await?, clock::now());
    while sent < count && clock::now().duration_since(since) < STILL_MAX {
        sleep(LOOK_EVERY).await;
        let now = server.emails_sent().await?;
        if now != sent {
            (sent, since) = (now, clock::now());
        }
    }
    Ok(sent)
}
