//! PVM: our small program (`bench/peers/pvm.c`), two tasks with a direct route between them.

use std::time::Duration;

use super::lines::{MEASURE, turn};
use super::mpi::{AGENT, arguments, measures};
use super::peer::{Asked, Peer, Turn};
use super::room::places::at;
use super::room::{Exchange, Job, Run};
use super::tool;
use crate::deploy::joined::Joint;
use crate::deploy::veth::Pair;
use crate::error::Error;
use crate::side::Side;
use crate::watch::Watch;

const SOURCE: (&str, &str) = ("pvm.c", include_str!("../../peers/pvm.c"));
const SCRIPT: (&str, &str) = ("pvm.sh", include_str!("../../peers/pvm.sh"));
const PROGRAM: &str = "pvm";

/// Waiting in the system, or asking again and again.
pub(super) struct Pvm {
    pub(super) sleeps: bool,
}

impl Peer for Pvm {
    fn name(&self) -> &'static str {
        if self.sleeps { "pvm-sleeping" } else { "pvm" }
    }

    fn goes_over(&self, joint: Joint) -> bool {
        joint == Joint::Tcp
    }

    fn what(&self) -> &'static str {
        if self.sleeps {
            "PVM, direct route, pvm_recv"
        } else {
            "PVM, direct route, pvm_nrecv until something is there"
        }
    }

    fn notes(&self) -> &'static [&'static str] {
        &[
            "pvm: each message packed in place and unpacked; one way as by MPI; CPU by getrusage of both tasks, from inside",
        ]
    }

    fn find(&self, watch: &Watch) -> Result<String, String> {
        tool::version("cc", &["--version"], watch)?;
        // It has no option that tells, and starts a daemon where there is none: ask who packed it.
        let header = std::fs::read_to_string("/usr/include/pvm3.h");
        let header = header.map_err(|_| "pvm3.h is not installed: scripts/setup --with-peers".to_owned())?;
        tool::installed("pvm")?;
        let version = header.lines().find_map(|line| line.strip_prefix("#define\tPVM_VER"));
        Ok(format!("PVM {}", version.unwrap_or("3").trim().trim_matches('"')))
    }

    fn takes(&self, asked: &Asked) -> Duration {
        measures(asked) + Duration::from_millis(1500)
    }

    fn turn(&self, pair: &Pair, asked: &Asked, watch: &Watch) -> Result<Turn, Error> {
        let build = Run::on(Side::Near, &["cc", "-O2", "-o", PROGRAM, SOURCE.0, "-lpvm3"]).anywhere();
        let words = ["sh".to_owned(), at(SCRIPT.0)].into_iter().chain(arguments(asked)).collect();
        let (agent, near) = (at(AGENT.0), at("near"));
        let variables = [
            ("PVM_ROOT", "/usr/lib/pvm3"),
            ("PVM_ALLOW_ROOT", "1"),
            ("PVM_RSH", &agent),
            ("PVM_TMP", &near),
            ("AM_BENCH_SLEEP", if self.sleeps { "1" } else { "0" }),
        ];
        let client = Run { words, ..Run::on(Side::Near, &[]) }.anywhere().with(&variables);
        let files = [MEASURE, AGENT, SOURCE, SCRIPT].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let exchanges = vec![Exchange { server: None, client }];
        let said = tool::run(Job { files: files.into(), build: vec![build], exchanges }, pair, asked, watch)?;
        turn(self.name(), &said.first().cloned().unwrap_or_default(), "veth kernel tcp")
    }
}
