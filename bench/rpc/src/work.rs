//! What is measured: the stack that carries a call, the call, and the number of calls under way at once.

/// A stack that carries calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    /// A bare request and its reply, below our calls.
    Am,
    /// Our calls.
    Rpc,
    Tonic,
    Tarpc,
}

impl Stack {
    pub(crate) const ALL: [Stack; 4] = [Stack::Am, Stack::Rpc, Stack::Tonic, Stack::Tarpc];

    /// The name in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stack::Am => "am",
            Stack::Rpc => "rpc",
            Stack::Tonic => "tonic",
            Stack::Tarpc => "tarpc",
        }
    }

    /// Whether it uses a TCP socket of the kernel, whatever carries our frames.
    pub(crate) fn is_over_tcp(self) -> bool {
        matches!(self, Stack::Tonic | Stack::Tarpc)
    }
}

/// A method of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Returns its bytes. Without any, it is the null call.
    Echo,
    /// A null call, `async`, ready when it is polled first.
    Ready,
    /// A null call, `async`, not ready when it is polled first: it becomes a task.
    Task,
    /// A null call on a thread of the pool.
    Pool,
    /// Reads a structure, with generated marshalling.
    Order,
    /// Reads the same structure, with serde's.
    OrderBySerde,
    /// Adds to an object's number (the paper's ROI latency).
    Increment,
    /// Reads a list of numbers, and returns it (the paper's ROI throughput).
    Array,
}

/// One measurement: a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) stack: Stack,
    pub(crate) method: Method,
    /// Bytes of the argument, and as many of the result.
    pub(crate) size: usize,
    /// Calls under way at once.
    pub(crate) outstanding: usize,
}

/// One call at a time, and as many as the issue of many programs.
pub(crate) const OUTSTANDING: [usize; 2] = [1, 64];
/// The argument of the paper's throughput, 1 MB.
pub(crate) const LONG: usize = 1 << 20;

impl Work {
    /// The null call.
    pub(crate) fn null(stack: Stack, outstanding: usize) -> Work {
        Work { stack, method: Method::Echo, size: 0, outstanding }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.method {
            Method::Echo if self.size == 0 => "null",
            Method::Echo => "echo",
            Method::Ready => "null, async, ready",
            Method::Task => "null, async, a task",
            Method::Pool => "null, on the pool",
            Method::Order => "order, generated",
            Method::OrderBySerde => "order, serde",
            Method::Increment => "increment",
            Method::Array => "array",
        }
    }

    /// All that a stack is measured with; the null call, and echoes of these sizes.
    pub(crate) fn all_of(stack: Stack, sizes: &[usize]) -> Vec<Work> {
        let of = |method, size, outstanding| Work { stack, method, size, outstanding };
        let at_once = |method, size| OUTSTANDING.map(|outstanding| of(method, size, outstanding));
        let echoes = [0].iter().chain(sizes).flat_map(|size| at_once(Method::Echo, *size));
        if stack != Stack::Rpc {
            return echoes.collect();
        }
        let others = [Method::Ready, Method::Task, Method::Pool, Method::Order, Method::OrderBySerde];
        let orca = [of(Method::Increment, 0, 1), of(Method::Array, LONG, 1)];
        echoes.chain(others.into_iter().flat_map(|method| at_once(method, 0))).chain(orca).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_calls_are_measured_by_every_stack() {
        for stack in Stack::ALL {
            let all = Work::all_of(stack, &[1024, LONG]);
            assert!(OUTSTANDING.iter().all(|outstanding| all.contains(&Work::null(stack, *outstanding))));
            assert_eq!(all.len(), if stack == Stack::Rpc { 18 } else { 6 });
        }
    }
}
