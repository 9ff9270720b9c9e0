//! tarpc over TCP, with bincode.

use std::net::SocketAddr;

use am_measure::{Amount, Check, Error, Watch};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use serde_bytes::ByteBuf;
use tarpc::serde_transport::Transport;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context};
use tokio::net::{TcpListener, TcpStream};

use super::lost;
use crate::load::{Sample, keep_busy};
use crate::work::Work;

#[tarpc::service]
trait Calls {
    async fn null();
    async fn echo(bytes: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Server;

impl Calls for Server {
    async fn null(self, _: context::Context) {}

    async fn echo(self, _: context::Context, bytes: ByteBuf) -> ByteBuf {
        bytes
    }
}

/// Serve all that connect, each call in a task of its own.
pub(super) async fn serve(listener: TcpListener) -> Result<(), Error> {
    loop {
        let (stream, _) = listener.accept().await.map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        let channel = BaseChannel::with_defaults(Transport::from((stream, Bincode::default())));
        tokio::spawn(channel.execute(Server.serve()).for_each(async |call| _ = tokio::spawn(call)));
    }
}

/// A client with one connection, as a program has it.
pub(super) struct Client(CallsClient);

impl Client {
    pub(super) async fn connect(to: SocketAddr) -> Result<Client, Error> {
        let stream = TcpStream::connect(to).await.map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        let transport = Transport::from((stream, Bincode::default()));
        Ok(Client(CallsClient::new(client::Config::default(), transport).spawn()))
    }
}

impl super::Client for Client {
    fn measure<'a>(
        &'a self,
        work: &'a Work,
        amount: Amount,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Sample, Error>> {
        Box::pin(async move {
            let check = Check::new(work.size);
            let check = &check;
            let callers = (0..work.outstanding).map(|_| {
                async move || {
                    if work.size == 0 {
                        return self.0.null(context::current()).await.map_err(lost);
                    }
                    let bytes = ByteBuf::from(check.bytes.clone());
                    let bytes = self.0.echo(context::current(), bytes).await.map_err(lost)?;
                    check.check(&bytes)
                }
            });
            keep_busy(callers, amount, watch).await
        })
    }
}
