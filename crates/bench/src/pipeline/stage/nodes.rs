//! One node and two on one database, under the same load.

use anyhow::Result;
use serde::Serialize;

use crate::pipeline::flow::{Flow, Shape};
use crate::pipeline::server::Server;
use crate::pipeline::statistics::{median, ratio};
use crate::pipeline::{Bench, progress};

/// Connections for each node that there is: what keeps one busy when it is alone. With fewer, two nodes have half-filled
/// batches each, and what a batch costs whatever is in it weighs twice.
const CONNECTIONS_PER_NODE: usize = 256;

/// What two nodes do together, beside what one does. Generators and connections are the same for both.
#[derive(Serialize)]
pub(crate) struct Nodes {
    /// Durable accepts per second of a source without destinations.
    pub(in crate::pipeline) accepts: Compared,
    /// Deliveries per second of one source with one destination.
    pub(in crate::pipeline) events1: Compared,
    /// Deliveries per second of one source with ten destinations.
    pub(in crate::pipeline) events10: Compared,
    pub(in crate::pipeline) lost: u64,
}

/// One shape over all rounds.
#[derive(Default, Serialize)]
pub(crate) struct Compared {
    /// Median over the rounds: the sum of two nodes over what one did just before or after.
    pub(in crate::pipeline) ratio_median: Option<f64>,
    rounds: Vec<Round>,
}

#[derive(Serialize)]
struct Round {
    ratio: f64,
    one_per_second: f64,
    two_per_second: f64,
    one: Flow,
    two: Flow,
}

pub(in crate::pipeline) async fn measure(bench: &Bench) -> Result<Nodes> {
    let [mut accepts, mut events1, mut events10] = [const { Vec::new() }; 3];
    for number in 0..bench.scale.rounds {
        progress(&format!("two nodes, round {} of {}", number + 1, bench.scale.rounds))?;
        for (rounds, destinations) in [(&mut accepts, 0), (&mut events1, 1), (&mut events10, 10)] {
            rounds.push(round(bench, destinations, number % 2 == 1).await?);
        }
    }
    let lost = [&accepts, &events1, &events10].into_iter().flatten();
    let lost = lost.map(|round| round.one.lost + round.two.lost).sum();
    let [accepts, events1, events10] = [accepts, events1, events10].map(|rounds| Compared {
        ratio_median: median(rounds.iter().map(|round: &Round| round.ratio)),
        rounds,
    });
    Ok(Nodes { accepts, events1, events10, lost })
}

/// `two_first`: what comes second finds the machine as the first left it.
async fn round(bench: &Bench, destinations: usize, two_first: bool) -> Result<Round> {
    let (one, two) = if two_first {
        let two = flow(bench, destinations, 2).await?;
        (flow(bench, destinations, 1).await?, two)
    } else {
        (flow(bench, destinations, 1).await?, flow(bench, destinations, 2).await?)
    };
    let rate =
        |flow: &Flow| if destinations == 0 { flow.acks_per_second } else { flow.deliveries_per_second };
    let (one_per_second, two_per_second) = (rate(&one), rate(&two));
    let ratio = ratio(two_per_second, one_per_second);
    progress(&format!(
        "  1×{destinations}: one {one_per_second:.0}/s, two {two_per_second:.0}/s, ratio {ratio:.3}, lost {}",
        one.lost + two.lost
    ))?;
    Ok(Round { ratio, one_per_second, two_per_second, one, two })
}

async fn flow(bench: &Bench, destinations: usize, nodes: usize) -> Result<Flow> {
    let mut first = Server::start(bench).await?;
    let second = if nodes > 1 { Some(first.another(bench).await?) } else { None };
    let sources = Shape { sources: 1, destinations }.create(bench, &mut first).await?;
    let both = [&first, second.as_ref().unwrap_or(&first)];
    let flow = bench.flow_over(both, 2 * CONNECTIONS_PER_NODE, &sources, destinations).await?;
    if let Some(second) = second {
        second.discard().await?;
    }
    first.discard().await?;
    Ok(flow)
}
