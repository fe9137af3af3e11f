//! One client, its connection to the server, and what passes between them.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{broadcast, watch};

use super::chaos::Chaos;
use super::{Fault, Moment, Newcomers, Order, Shared};
use crate::testbed::wire::{Frame, Side, Splitter};

const READ_BYTES: usize = 64 * 1024;
/// The answer to a request to encrypt.
const NO: &[u8] = b"N";

/// Why frames pass no longer.
#[derive(Debug)]
enum End {
    Struck(Fault),
    /// One side went without a word. Both are cut off.
    Lost,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// A connection.
pub(super) struct Connection {
    shared: Arc<Shared>,
    chaos: Mutex<Option<Chaos>>,
}

impl Connection {
    /// Carries frames both ways until both sides are done or a fault strikes, and sees to what that leaves.
    pub(super) async fn run(shared: Arc<Shared>, client: TcpStream, target: SocketAddr) {
        let mut orders = shared.orders.subscribe();
        let newcomers = shared.state.lock().unwrap().newcomers;
        let (mut client, mut server) = (Some(client), None);
        let fault = match newcomers {
            Newcomers::Welcome => {
                let chaos = Mutex::new(shared.state.lock().unwrap().welcome());
                let connection = Self { shared, chaos };
                tokio::select! {
                    biased;
                    fault = struck(&mut orders) => fault,
                    end = connection.carry(client.as_mut().unwrap(), &mut server, target) => match end {
                        Err(End::Struck(fault)) => fault,
                        Ok(()) | Err(End::Lost) => Fault::Cut,
                    },
                }
            }
            Newcomers::Refused => Fault::Cut,
            Newcomers::Ignored => Fault::Silence,
        };
        match fault {
            Fault::Cut | Fault::Stall(_) => return,
            Fault::HalfOpen { blind: Side::Client } => server = None,
            Fault::HalfOpen { blind: Side::Server } => client = None,
            Fault::Silence => {}
        }
        tokio::select! {
            () = healed(&mut orders) => {}
            _ = async { tokio::join!(swallow(client), swallow(server)) } => {}
        }
    }

    /// `Ok`: both sides have said all they had to say.
    async fn carry(
        &self,
        client: &mut TcpStream,
        server: &mut Option<TcpStream>,
        target: SocketAddr,
    ) -> Result<(), End> {
        client.set_nodelay(true)?;
        let mut splitter = Splitter::new(Side::Client);
        let Some(first) = first(client, &mut splitter).await? else { return Ok(()) };
        let server = server.insert(TcpStream::connect(target).await?);
        server.set_nodelay(true)?;
        let (client_says, to_client) = client.split();
        let (server_says, to_server) = server.split();
        tokio::try_join!(
            self.pass(Side::Client, splitter, Some(first), client_says, to_server),
            self.pass(Side::Server, Splitter::new(Side::Server), None, server_says, to_client),
        )?;
        Ok(())
    }

    /// Passes on what one side says until it has no more to say. `frame` was taken out of the splitter before.
    async fn pass(
        &self,
        from: Side,
        mut splitter: Splitter,
        mut frame: Option<(Bytes, Frame)>,
        mut says: impl AsyncRead + Unpin,
        to: impl AsyncWrite + Unpin,
    ) -> Result<(), End> {
        let mut way = Way { to, stalls: self.shared.stalls[from as usize].subscribe() };
        let mut read = BytesMut::new();
        loop {
            // What came together goes on together.
            let mut passing = BytesMut::new();
            while let Some((bytes, said)) = frame.take().or_else(|| splitter.take().unwrap()) {
                let struck = self.judge(from, &said);
                if let Some((Moment::Before, fault)) = struck {
                    way.go(&mut passing).await?;
                    self.strike(fault).await?;
                }
                passing.extend_from_slice(&bytes);
                if let Some((Moment::After, fault)) = struck {
                    way.go(&mut passing).await?;
                    self.strike(fault).await?;
                }
            }
            way.go(&mut passing).await?;
            read.reserve(READ_BYTES);
            if says.read_buf(&mut read).await? == 0 {
                return Ok(way.end().await?);
            }
            splitter.push(&read);
            read.clear();
        }
    }

    /// What comes with a frame: what a test has planned, else what the seed says.
    fn judge(&self, from: Side, frame: &Frame) -> Option<(Moment, Fault)> {
        let mut state = self.shared.state.lock().unwrap();
        let planned = state.count(frame);
        let chaos = &mut *self.chaos.lock().unwrap();
        let drawn = chaos.as_mut().filter(|_| state.chaos.is_some()).and_then(|chaos| chaos.count(from));
        planned.or(drawn)
    }

    /// Holds what follows, or ends the passing.
    async fn strike(&self, fault: Fault) -> Result<(), End> {
        let Fault::Stall(time) = fault else { return Err(End::Struck(fault)) };
        let mut orders = self.shared.orders.subscribe();
        // Whichever comes first.
        let _ = tokio::time::timeout(time, healed(&mut orders)).await;
        Ok(())
    }
}

/// The way to the other side.
struct Way<W> {
    to: W,
    /// How many hold what goes this way.
    stalls: watch::Receiver<u32>,
}

impl<W: AsyncWrite + Unpin> Way<W> {
    async fn go(&mut self, bytes: &mut BytesMut) -> io::Result<()> {
        self.free().await;
        self.to.write_all_buf(bytes).await
    }

    async fn end(&mut self) -> io::Result<()> {
        self.free().await;
        self.to.shutdown().await
    }

    async fn free(&mut self) {
        self.stalls.wait_for(|count| *count == 0).await.expect("its other end is held by the connection");
    }
}

/// The first frame that is not a request to encrypt; those are answered here. `None`: the client went.
async fn first(client: &mut TcpStream, splitter: &mut Splitter) -> io::Result<Option<(Bytes, Frame)>> {
    let mut read = BytesMut::new();
    loop {
        match splitter.take().unwrap() {
            Some((_, Frame::Encrypt)) => client.write_all(NO).await?,
            Some(first) => return Ok(Some(first)),
            None if client.read_buf(&mut read).await? == 0 => return Ok(None),
            None => splitter.push(&read.split()),
        }
    }
}

/// Waits until all connections are struck.
async fn struck(orders: &mut broadcast::Receiver<Order>) -> Fault {
    loop {
        match orders.recv().await {
            Ok(Order::Strike(fault)) => return fault,
            Ok(Order::Heal) => {}
            Err(_) => return Fault::Cut,
        }
    }
}

/// Waits until the link is good again, or is cut for good.
async fn healed(orders: &mut broadcast::Receiver<Order>) {
    loop {
        match orders.recv().await {
            Ok(Order::Heal | Order::Strike(Fault::Cut)) | Err(_) => return,
            Ok(Order::Strike(Fault::HalfOpen { .. } | Fault::Silence | Fault::Stall(_))) => {}
        }
    }
}

/// Keeps a connection open, deaf and mute, until the other end goes.
async fn swallow(stream: Option<TcpStream>) {
    let Some(mut stream) = stream else { return };
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}
