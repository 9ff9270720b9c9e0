//! Calls between the nodes: a length, and a value in postcard's form, over TCP.

use std::io;

use am_measure::members::LOOK;
use openraft::error::{InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{BasicNode, Raft};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::{Cluster, Written};

#[derive(Debug, Serialize, Deserialize)]
enum Call {
    Append(AppendEntriesRequest<Cluster>),
    Vote(VoteRequest<u64>),
    Install(InstallSnapshotRequest<Cluster>),
    /// The only one without an answer.
    Write(Written),
    Set(Written),
}

async fn put(stream: &mut TcpStream, value: &impl Serialize) -> io::Result<()> {
    let mut frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&frame).await
}

async fn get<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut frame = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut frame).await?;
    postcard::from_bytes(&frame).map_err(io::Error::other)
}

async fn connect(to: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Answer all that connect to this address.
pub(super) async fn serve(at: &str, raft: Raft<Cluster>) -> io::Result<()> {
    let listener = TcpListener::bind(at).await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, raft.clone()));
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, raft: Raft<Cluster>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        match get(&mut stream).await? {
            Call::Append(request) => put(&mut stream, &raft.append_entries(request).await).await?,
            Call::Vote(request) => put(&mut stream, &raft.vote(request).await).await?,
            Call::Install(request) => put(&mut stream, &raft.install_snapshot(request).await).await?,
            Call::Write(written) => _ = raft.client_write_ff(written).await.map_err(io::Error::other)?,
            Call::Set(written) => {
                let set = raft.client_write(written).await;
                put(&mut stream, &set.map(|set| set.data).map_err(|why| why.to_string())).await?;
            }
        }
    }
}

/// Send the leader what is to be written. `answered` gets the bytes of each key that the leader has set.
pub(super) async fn write(
    leader: String,
    mut written: UnboundedReceiver<Written>,
    answered: impl Fn(&[u8]),
) -> io::Result<()> {
    let mut stream = loop {
        match connect(&leader).await {
            Ok(stream) => break stream,
            // It does not listen yet.
            Err(_) => sleep(LOOK).await,
        }
    };
    while let Some(written) = written.recv().await {
        if written.key.is_none() {
            put(&mut stream, &Call::Write(written)).await?;
            continue;
        }
        let bytes = written.bytes.clone();
        put(&mut stream, &Call::Set(written)).await?;
        get::<Result<Option<ByteBuf>, String>>(&mut stream).await?.map_err(io::Error::other)?;
        answered(&bytes);
    }
    Ok(())
}

/// Makes connections.
pub(super) struct Network;

/// A connection, once it is used.
pub(super) struct Peer {
    index: u64,
    address: String,
    stream: Option<TcpStream>,
}

impl RaftNetworkFactory<Cluster> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Peer {
        Peer { index: target, address: node.addr.clone(), stream: None }
    }
}

type CallError<E> = RPCError<u64, BasicNode, RaftError<u64, E>>;

impl Peer {
    async fn call<T, E>(&mut self, call: Call, option: RPCOption) -> Result<T, CallError<E>>
    where
        T: DeserializeOwned,
        E: DeserializeOwned + std::error::Error,
    {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(&self.address).await.map_err(|why| RPCError::Unreachable(Unreachable::new(&why)))?,
        };
        let answered = timeout(option.hard_ttl(), async {
            put(&mut stream, &call).await?;
            get::<Result<T, RaftError<u64, E>>>(&mut stream).await
        });
        let broken = |why: io::Error| RPCError::Network(NetworkError::new(&why));
        let answer = answered.await.map_err(|late| broken(late.into()))?.map_err(broken)?;
        self.stream = Some(stream);
        answer.map_err(|why| RPCError::RemoteError(RemoteError::new(self.index, why)))
    }
}

impl RaftNetwork<Cluster> for Peer {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Cluster>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        self.call(Call::Append(request), option).await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Cluster>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, CallError<InstallSnapshotError>> {
        self.call(Call::Install(request), option).await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u64>,
        option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        self.call(Call::Vote(request), option).await
    }
}
