//! gRPC by tonic, with messages of prost. What `protoc` would generate is written by hand.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use am_measure::{Amount, Check, Error, Watch};
use futures_util::future::LocalBoxFuture;
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{self};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::UnaryService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::lost;
use crate::load::{Sample, keep_busy};
use crate::work::Work;

const ECHO: &str = "/am.bench.Calls/Echo";

#[derive(Clone, PartialEq, prost::Message)]
struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

type Codec = ProstCodec<Bytes, Bytes>;

#[derive(Clone)]
struct Calls;

impl Service<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            Ok(match request.uri().path() {
                ECHO => tonic::server::Grpc::new(Codec::default()).unary(Echo, request).await,
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

struct Echo;

impl UnaryService<Bytes> for Echo {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// Serve all that connect.
pub(super) async fn serve(listener: TcpListener) -> Result<(), Error> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder().serve_with_incoming(Calls, incoming).await.map_err(lost)
}

/// A client with one connection, as a program has it.
pub(super) struct Client(Channel);

impl Client {
    pub(super) async fn connect(to: SocketAddr) -> Result<Client, Error> {
        let endpoint = Endpoint::from_shared(format!("http://{to}")).map_err(lost)?;
        Ok(Client(endpoint.tcp_nodelay(true).connect().await.map_err(lost)?))
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
                let mut client = Grpc::new(self.0.clone());
                async move || {
                    client.ready().await.map_err(lost)?;
                    let request = Request::new(Bytes { bytes: check.bytes.clone() });
                    let path = PathAndQuery::from_static(ECHO);
                    let response = client.unary(request, path, Codec::default()).await.map_err(lost)?;
                    check.check(&response.into_inner().bytes)
                }
            });
            keep_busy(callers, amount, watch).await
        })
    }
}
