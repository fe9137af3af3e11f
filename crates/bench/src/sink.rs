//! The receiver: answers, and counts what arrived.
//!
//! Paths: `/hang/…` never answers; `/slow/20/…` answers after so many milliseconds, and it is counted how many are open
//! at once; `/status/503/…` answers that status; `GET /__stats` gives the counts as JSON and
//! `/__reset` clears them; everything else answers an empty 200.

mod service;
mod tally;

use std::io::{Write as _, stdout};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use hyper::header::HeaderName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) use self::tally::Stats;

use self::tally::Tally;
use crate::limits;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one. The address in use is printed as JSON on standard output.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Threads that answer; connections go to them in turn.
    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// Header whose value names a message: one value twice on one path is a duplicate.
    #[arg(long, default_value = "x-adal-idempotency")]
    identity_header: HeaderName,

    /// Do not look for duplicates.
    #[arg(long)]
    no_identity: bool,
}

/// Receives until the process is ended.
pub(crate) fn serve(args: &Args) -> Result<()> {
    limits::raise_open_files();
    let identity = (!args.no_identity).then(|| args.identity_header.clone());
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}\nhint: port 0 takes a free one", args.listen))?;
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::json!({ "listening": listener.local_addr()? }))?;
    out.flush()?;
    drop(out);
    accept(&listener, args.threads.max(1), identity)
}

/// A receiver inside this process, on a free port; it lives as long as the process.
#[cfg(test)]
pub(crate) fn start_here() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let identity = Some(HeaderName::from_static("x-adal-idempotency"));
    thread::spawn(move || accept(&listener, 2, identity));
    Ok(address)
}

fn accept(listener: &TcpListener, threads: usize, identity: Option<HeaderName>) -> Result<()> {
    let tally = Arc::new(Tally::new(identity));
    let threads = (0..threads).map(|_| start_thread(Arc::clone(&tally))).collect::<Result<Vec<_>>>()?;
    for turn in threads.iter().cycle() {
        let (stream, _) = listener.accept().context("cannot accept a connection")?;
        turn.send(stream).ok().context("a receiver thread ended")?;
    }
    Ok(())
}

fn start_thread(tally: Arc<Tally>) -> Result<UnboundedSender<TcpStream>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, streams) = unbounded_channel();
    thread::spawn(move || runtime.block_on(answer_all(streams, tally)));
    Ok(sender)
}

async fn answer_all(mut streams: UnboundedReceiver<TcpStream>, tally: Arc<Tally>) {
    while let Some(stream) = streams.recv().await {
        // A connection that breaks shows at its client.
        tokio::spawn(answer(stream, Arc::clone(&tally)));
    }
}

async fn answer(stream: TcpStream, tally: Arc<Tally>) -> Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let service = service_fn(|request| service::answer(request, &tally));
    Ok(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?)
}
