//! The environment of a program: the library, its transports, and the names of both for the tasks that the program spawns.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::elf;
use crate::names::{self, NameError};

const LIBRARY: &str = "libpvm_am.so";

/// The loader's list of libraries, PVM's list of the variables that spawned tasks get, and the library's own variables.
const PRELOAD: &str = "LD_PRELOAD";
const EXPORT: &str = "PVM_EXPORT";
const TRANSPORT: &str = "PVM_AM";
const REPORT: &str = "PVM_AM_REPORT";

/// Why nothing is started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("there is no {LIBRARY} in {0}, nor in ../lib beside it: `make install` in bindings/pvm, or --library")]
    Missing(String),
    #[error("{path}: {why}")]
    File { path: String, why: io::Error },
    #[error("{0}: the loader takes no path with a space or a colon")]
    Path(String),
    #[error("{0}: this is not {LIBRARY}, which is loaded before PVM's library")]
    OtherLibrary(String),
    #[error("{place}: {why}")]
    Transport { place: &'static str, why: NameError },
}

/// What a program gets.
#[derive(Debug)]
pub(crate) struct Settings {
    library: PathBuf,
    transport: Option<String>,
    report: bool,
}

/// The library beside this program, or where it is installed.
fn found() -> Result<PathBuf, SettingsError> {
    let own = env::current_exe().unwrap_or_default();
    let directory = own.parent().unwrap_or(Path::new("."));
    let places = [directory.join(LIBRARY), directory.join("../lib").join(LIBRARY)];
    let missing = || SettingsError::Missing(directory.display().to_string());
    places.into_iter().find(|place| place.exists()).ok_or_else(missing)
}

/// A list with colons, and these names at its end, each once.
fn with_names(list: &OsStr, names: &[&str]) -> OsString {
    let text = list.to_string_lossy();
    let mut all: Vec<&str> = text.split(':').filter(|name| !name.is_empty()).collect();
    for name in names {
        if !all.contains(name) {
            all.push(name);
        }
    }
    all.join(":").into()
}

/// The names that the tasks get: these, or what the environment has.
fn check_names(given: Option<&str>) -> Result<(), SettingsError> {
    let own = env::var(TRANSPORT).ok();
    let (place, names) = match (given, own) {
        (Some(names), _) => ("--transport", names.to_owned()),
        (None, Some(names)) => (TRANSPORT, names),
        (None, None) => return Ok(()),
    };
    // An empty one is the default.
    let checked = if names.is_empty() { Ok(()) } else { names::check(&names) };
    checked.map_err(|why| SettingsError::Transport { place, why })
}

impl Settings {
    pub(crate) fn new(
        library: Option<&Path>,
        transport: Option<&str>,
        report: bool,
    ) -> Result<Settings, SettingsError> {
        check_names(transport)?;
        let library = library.map_or_else(found, |library| Ok(library.to_owned()))?;
        let file = |why| SettingsError::File { path: library.display().to_string(), why };
        let library = library.canonicalize().map_err(file)?;
        if library.to_string_lossy().contains([' ', ':']) {
            return Err(SettingsError::Path(library.display().to_string()));
        }
        let bytes = fs::read(&library).map_err(file)?;
        if !elf::is_library(&bytes) {
            return Err(SettingsError::OtherLibrary(library.display().to_string()));
        }
        Ok(Settings { library, transport: transport.map(str::to_owned), report })
    }

    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// Set the variables of a command.
    pub(crate) fn set(&self, command: &mut Command) {
        // First: another library may have some of the names, too.
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env(PRELOAD, preload);
        let exported = env::var_os(EXPORT).unwrap_or_default();
        command.env(EXPORT, with_names(&exported, &[PRELOAD, TRANSPORT, REPORT]));
        if let Some(transport) = &self.transport {
            command.env(TRANSPORT, transport);
        }
        if self.report {
            command.env(REPORT, "1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_once() {
        assert_eq!(with_names(OsStr::new(""), &["A", "B"]), "A:B");
        assert_eq!(with_names(OsStr::new("DISPLAY:A"), &["A", "B"]), "DISPLAY:A:B");
    }

    #[test]
    fn a_path_that_the_loader_cannot_take_is_refused() {
        let error = Settings::new(Some(Path::new("/none/libpvm_am.so")), None, false).unwrap_err();
        assert!(error.to_string().starts_with("/none/libpvm_am.so: "), "{error}");
    }

    #[test]
    fn a_file_that_is_not_the_library_is_refused() {
        let own = env::current_exe().unwrap();
        let error = Settings::new(Some(&own), None, false).unwrap_err();
        assert!(
            error.to_string().ends_with(": this is not libpvm_am.so, which is loaded before PVM's library"),
            "{error}"
        );
    }
}
