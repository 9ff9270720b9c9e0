//! What a program may use instead of our calls: tonic and tarpc, as dependencies of this bench. Each side has a runtime of tokio of one
//! thread, which sleeps while it is idle, as theirs do.

mod tarpc;
mod tonic;

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;

use am_measure::{Amount, Error, Watch};
use futures_channel::oneshot;
use futures_util::future::{Either, LocalBoxFuture, select};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::load::Sample;
use crate::near::{Given, Near};
use crate::work::{Stack, Work};

/// A client that is connected.
trait Client {
    /// Measure this with as many calls at once as it says.
    fn measure<'a>(
        &'a self,
        work: &'a Work,
        amount: Amount,
        watch: &'a Watch,
    ) -> LocalBoxFuture<'a, Result<Sample, Error>>;
}

/// Listen there, say on which port, and serve until the near side is done.
pub(crate) fn serve(
    stack: Stack,
    on: IpAddr,
    port: oneshot::Sender<SocketAddr>,
    done: oneshot::Receiver<()>,
) -> Result<(), Error> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind((on, 0)).await.map_err(Error::system("listening on TCP"))?;
        let address = listener.local_addr().map_err(Error::system("listening on TCP"))?;
        port.send(address).map_err(|_| Error::GivenUp)?;
        let serving = pin!(async {
            match stack {
                Stack::Tonic => tonic::serve(listener).await,
                _ => tarpc::serve(listener).await,
            }
        });
        match select(serving, done).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => Ok(()),
        }
    })
}

/// Measure all of this stack's work.
pub(crate) fn measure(stack: Stack, near: Near<'_>, port: oneshot::Receiver<SocketAddr>) -> Result<Given, Error> {
    runtime()?.block_on(async {
        let to = port.await.map_err(|_| Error::PeerGone("it does not listen".to_owned()))?;
        let client: Box<dyn Client> = match stack {
            Stack::Tonic => Box::new(tonic::Client::connect(to).await?),
            _ => Box::new(tarpc::Client::connect(to).await?),
        };
        let mut given = vec![];
        for work in &near.work {
            near.announce(work);
            given.push((*work, client.measure(work, near.amount, near.watch).await?));
            near.progress.done();
        }
        Ok(given)
    })
}

fn runtime() -> Result<Runtime, Error> {
    Builder::new_current_thread().enable_all().build().map_err(Error::system("starting a runtime of tokio"))
}

/// Why a call failed, or its connection.
fn lost(why: impl Display) -> Error {
    Error::Lost(why.to_string())
}
