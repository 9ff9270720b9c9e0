//! The process as a vertex of a graph: the calls of `dp.h` that name no node.

use std::env;
use std::ffi::{CString, c_char, c_int};
use std::os::fd::RawFd;
use std::ptr;
use std::time::{Duration, Instant};

use am_dp::{Dpid, GRAPH_VARIABLE, Graph, JoinError, Nid};
use nix::errno::Errno;

use crate::calls::{barrier, number};
use crate::environment;
use crate::failure::{Failure, call};
use crate::pace::pause_call;
use crate::process::{self, Process};
use crate::start;
use crate::vertex::Vertex;

/// How long `dp_graph` waits for the other processes.
const JOIN: Duration = Duration::from_secs(60);

impl From<JoinError> for Failure {
    #[cold]
    fn from(error: JoinError) -> Failure {
        match error {
            JoinError::Open(why) => why.into(),
            JoinError::Connect { ref why, .. } => Failure::new(Failure::from(why.clone()).errno, error),
            error => Failure::new(Errno::EINVAL, error),
        }
    }
}

fn graph() -> Result<Graph, Failure> {
    let text = env::var(GRAPH_VARIABLE).map_err(|_| {
        let text = format!(
            "{GRAPH_VARIABLE} is not set: start the program with `dp-graph run GRAPH`, or set it to `ring:4`, say"
        );
        Failure::new(Errno::ENOENT, text)
    })?;
    text.parse().map_err(|why| Failure::new(Errno::EINVAL, format!("{GRAPH_VARIABLE}: {why}")))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_graph() -> c_int {
    call(-1, || {
        let graph = graph()?;
        process::abandon_if_closed()?;
        let (vertex, opened) = open_all(&graph)?;
        let joined = connect_all(&graph, vertex, &opened).and_then(|()| barrier());
        if let Err(why) = joined {
            close(&opened);
            return Err(why);
        }
        let out: Vec<Dpid> = graph.edges_from(vertex).map(|edge| edge.from.dpid).collect();
        let into = graph.edges_to(vertex).map(|edge| edge.to.dpid).collect();
        let name = CString::new(graph.name(vertex).replace('\0', "")).unwrap_or_default();
        let count = out.len() as c_int;
        start::open(|process| {
            process.vertex = Some(Vertex { vertices: graph.count() as c_int, name, out, into });
            Ok(count)
        })
    })
}

/// Open all endpoints of this process's vertex. Returns it, and their descriptors.
fn open_all(graph: &Graph) -> Result<(u32, Vec<(Dpid, RawFd)>), Failure> {
    let bytes = environment::pool_size()?;
    let mut opened = vec![];
    let result = start::open(|process| {
        if process.vertex.is_some() {
            return Err(Failure::new(Errno::EALREADY, "dp_graph was called before: a process is one vertex"));
        }
        let vertex = process.dp.vertex_of(graph)?;
        for dpid in graph.endpoints(vertex) {
            opened.push((dpid, process.open_point(dpid, bytes)?));
        }
        Ok(vertex)
    });
    match result {
        Ok(vertex) => Ok((vertex, opened)),
        Err(why) => {
            close(&opened);
            Err(why)
        }
    }
}

/// Connect those that have an edge out of them.
fn connect_all(graph: &Graph, vertex: u32, opened: &[(Dpid, RawFd)]) -> Result<(), Failure> {
    let fd_of = |dpid: Dpid| opened.iter().find(|(of, _)| *of == dpid).map_or(-1, |(_, fd)| *fd);
    let begin = |edge: &am_dp::GraphEdge| {
        let (nid, dpid) = (Nid(edge.to.vertex), edge.to.dpid);
        let attempt = process::with_point(fd_of(edge.from.dpid), |process, point, _| {
            Ok(process.dp.begin_connect(point, nid, dpid))
        });
        attempt.map(|attempt| (edge.from.dpid, attempt))
    };
    let mut attempts = graph.edges_from(vertex).map(begin).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    loop {
        start::open(|process| {
            let result = process.dp.join_step(&mut attempts, start.elapsed() > JOIN);
            process.dp.poll();
            process.note_call(false);
            Ok(result?)
        })?;
        if attempts.is_empty() {
            return Ok(());
        }
        pause_call(start)?;
    }
}

fn close(opened: &[(Dpid, RawFd)]) {
    for (_, fd) in opened {
        // It is an endpoint unless the program closed it meanwhile.
        _ = process::with(*fd, |process| {
            let point = process.forget(*fd).ok_or_else(|| Failure::not_a_point(*fd))?;
            process.dp.close(point);
            Ok(())
        });
    }
}

/// Run `work` with the process's part of the graph.
fn with_vertex<T>(work: impl FnOnce(&Process, &Vertex) -> Result<T, Failure>) -> Result<T, Failure> {
    start::open(|process| match &process.vertex {
        Some(vertex) => work(process, vertex),
        None => Err(Failure::new(Errno::EINVAL, "this process is no vertex yet: call dp_graph first")),
    })
}

/// The descriptor of an open endpoint.
fn descriptor(process: &Process, dpid: Dpid) -> Result<c_int, Failure> {
    let found = process.points().find(|(_, entry)| process.dp.dpid(&entry.point) == Some(dpid));
    let missing = || Failure::new(Errno::ENOENT, format!("this process has no endpoint with DPID {dpid}"));
    found.map(|(fd, _)| fd).ok_or_else(missing)
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_point(dpid: c_int) -> c_int {
    call(-1, || {
        let dpid = Dpid(number(dpid, "DPID")?);
        start::open(|process| descriptor(process, dpid))
    })
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_vertices() -> c_int {
    call(-1, || with_vertex(|_, vertex| Ok(vertex.vertices)))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_vertex_name() -> *const c_char {
    call(ptr::null(), || with_vertex(|_, vertex| Ok(vertex.name.as_ptr())))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_out_degree() -> c_int {
    call(-1, || with_vertex(|_, vertex| Ok(vertex.out.len() as c_int)))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_in_degree() -> c_int {
    call(-1, || with_vertex(|_, vertex| Ok(vertex.into.len() as c_int)))
}

fn edge(process: &Process, of: &[Dpid], k: c_int, what: &str) -> Result<c_int, Failure> {
    let found = usize::try_from(k).ok().and_then(|k| of.get(k));
    let missing =
        || Failure::new(Errno::EINVAL, format!("{k}: {} edges {what} this vertex, and they count from 0", of.len()));
    descriptor(process, *found.ok_or_else(missing)?)
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_out(k: c_int) -> c_int {
    call(-1, || with_vertex(|process, vertex| edge(process, &vertex.out, k, "leave")))
}

/// See `dp.h`.
// SAFETY: no other function of this name is in the library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dp_in(k: c_int) -> c_int {
    call(-1, || with_vertex(|process, vertex| edge(process, &vertex.into, k, "arrive at")))
}
