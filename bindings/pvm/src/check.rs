//! `pvm-am check`: the process says what the library finds, and ends, before its program begins.

use std::env;
use std::io::{self, Write};

use crate::library::{Library, Unknown};
use crate::{ending, environment};

/// The variable that asks for it.
const CHECK: &str = "PVM_AM_CHECK";

/// By this name `pvm-am` knows the library's file before it loads it.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
pub static PVM_AM_LIBRARY: u8 = 1;

/// The loader runs this when it loads the library. PVM's own is in memory then.
// SAFETY: the loader calls what this section has, once, without arguments that are looked at.
#[unsafe(link_section = ".init_array")]
#[used]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    if env::var_os(CHECK).is_none() {
        ending::on_load();
        return;
    }
    let line = match found() {
        Ok(text) => format!("pvm-am works: {text}\n"),
        Err(why) => format!("pvm-am does not work: {why}\n"),
    };
    _ = io::stdout().write_all(line.as_bytes());
    // SAFETY: nothing of the program has run, so nothing of it has to be finished.
    unsafe { libc::_exit(0) };
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Library(#[from] Unknown),
    #[error("{0}")]
    Transport(String),
}

fn found() -> Result<String, Failure> {
    let library = Library::open()?;
    library.check()?;
    let mut why = String::new();
    for transport in environment::transports(&library) {
        match am_api::Node::builder("pvm-am-check").unique_name().open(&transport) {
            Ok(node) => {
                let place = if environment::lacks_host() {
                    "; in a task, with this host's address instead of 127.0.0.1"
                } else {
                    ""
                };
                return Ok(format!("PVM {}, over {}{place}", library.version_text(), node.transport()));
            }
            Err(error) => why = am_c_runtime::advice(&error),
        }
    }
    Err(Failure::Transport(why))
}
