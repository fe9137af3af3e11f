//! Which sources are listened to: found by name or id, made where that is wanted.

#[cfg(test)]
mod tests;

use restante_sdk::Client;
use restante_sdk::wire::{Destination, DestinationKind, NewDestination, NewSource, Paging, Source};

use super::target::Local;
use crate::exit;
use crate::nearest::{by_nearness, nearest};
use crate::output::hinted;

/// Names in a message.
const NAMES_MAX: usize = 10;

/// A source, and where its requests go.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) token: String,
    /// Its public URL.
    pub(crate) url: String,
    /// Addresses of the local service, for a request without a path; more than one only when its destinations have URLs
    /// of their own and the command line gives none.
    pub(crate) targets: Vec<String>,
}

/// What is wanted.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// Names or ids; none: the only one there is.
    pub(crate) sources: &'a [String],
    /// Make those that are missing.
    pub(crate) create: bool,
    pub(crate) local: &'a Local,
}

/// Finds and completes the sources. `say` is told what was made.
///
/// # Errors
/// With a hint and an exit code.
pub(crate) async fn choose(
    client: &Client,
    wanted: &Wanted<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Chosen>> {
    let known = all(client).await?;
    let mut chosen: Vec<Chosen> = Vec::new();
    for source in pick(client, &known, wanted, say).await? {
        if !chosen.iter().any(|it| it.id == source.id) {
            chosen.push(complete(client, source, wanted.local, say).await?);
        }
    }
    Ok(chosen)
}

async fn all(client: &Client) -> anyhow::Result<Vec<Source>> {
    let mut items = client.sources().list(&Paging::default()).items();
    let mut known = Vec::new();
    while let Some(source) = items.next().await {
        known.push(source?);
    }
    Ok(known)
}

async fn pick(
    client: &Client,
    known: &[Source],
    wanted: &Wanted<'_>,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Source>> {
    if wanted.sources.is_empty() {
        return the_only_one(known).map(|source| vec![source]);
    }
    let mut picked = Vec::new();
    for text in wanted.sources {
        let by = |source: &&Source| source.name == *text || source.id == *text;
        let source = match known.iter().find(by) {
            Some(source) => source.clone(),
            None if wanted.create && wanted.local.url.is_none() => return Err(where_to(text)),
            None if wanted.create => {
                let made = client.sources().create(&NewSource::new(text.clone())).await?;
                say(&format!("made the source {:?}", made.name));
                made
            }
            None => return Err(unknown(text, known)),
        };
        picked.push(source);
    }
    Ok(picked)
}

fn the_only_one(known: &[Source]) -> anyhow::Result<Source> {
    match known {
        [source] => Ok(source.clone()),
        [] => Err(hinted(
            "there is no source yet",
            "make one: restante listen 3000 --source orders --create",
            exit::NOT_FOUND,
        )),
        several => Err(hinted(
            format!(
                "there are {} sources: {}",
                several.len(),
                names(several.iter().map(|source| source.name.as_str()).collect())
            ),
            "say which: --source NAME, also more than once",
            exit::USAGE,
        )),
    }
}

fn unknown(text: &str, known: &[Source]) -> anyhow::Error {
    let all = known.iter().map(|source| source.name.as_str());
    if let Some(name) = nearest(text, all.clone()) {
        let hint = format!("did you mean {name}?");
        return hinted(format!("there is no source {text:?}"), &hint, exit::NOT_FOUND);
    }
    let there_are = match known {
        [] => "there are none yet".to_owned(),
        _ => format!("there are: {}", names(by_nearness(text, all))),
    };
    hinted(format!("there is no source {text:?}; {there_are}"), "--create makes it", exit::NOT_FOUND)
}

fn where_to(name: &str) -> anyhow::Error {
    let hint = format!("say where requests go: restante listen 3000 --source {name:?}");
    hinted(
        format!("{name:?} has no cli destination, and there is no URL to make one with"),
        &hint,
        exit::USAGE,
    )
}

fn names(mut names: Vec<&str>) -> String {
    if names.len() > NAMES_MAX {
        names.truncate(NAMES_MAX);
        names.push("…");
    }
    names.join(", ")
}

/// Makes sure that there is a destination for command-line clients.
async fn complete(
    client: &Client,
    source: Source,
    local: &Local,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Chosen> {
    let mut items = client.destinations().list(&source.id, &Paging::default()).items();
    let mut own: Vec<Destination> = Vec::new();
    while let Some(destination) = items.next().await {
        let destination = destination?;
        own.extend((destination.kind == DestinationKind::Cli).then_some(destination));
    }
    if own.is_empty() {
        let url = local.url.as_ref().ok_or_else(|| where_to(&source.name))?;
        let made = client.destinations().create(&source.id, &NewDestination::cli(url)).await?;
        say(&format!("made a cli destination of {:?}, to {url}", source.name));
        own.push(made);
    }
    if own.iter().all(|destination| destination.paused) {
        say(&format!(
            "note: the cli destination of {:?} is paused: nothing comes until it is resumed",
            source.name
        ));
    }
    let mut targets: Vec<String> = own.iter().map(|it| local.target(&it.url, "")).collect();
    targets.dedup();
    let Source { id, name, token, url, .. } = source;
    Ok(Chosen { id, name, token, url, targets })
}
