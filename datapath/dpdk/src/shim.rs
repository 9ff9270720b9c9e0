//! Finding and loading the shim, once a process.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use crate::abi::{Entry, SYMBOL, Table, VERSION};

/// The shim's file name.
pub(crate) const FILE: &str = "libdpdk_shim.so";
/// The environment variable with its path.
pub(crate) const VARIABLE: &str = "AM_DPDK_SHIM";

/// Why the shim cannot be loaded.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the words of the text")]
pub enum ShimError {
    /// This program is linked statically, so it cannot load libraries.
    #[error(
        "this program is linked statically and cannot load DPDK: use the one that `cargo build` makes, \
         or another transport (docs/operating.md, \"On another host\")"
    )]
    Static,
    /// The shim was not found.
    #[error(
        "DPDK needs {FILE}, which was not found: `scripts/setup --with-dpdk` installs DPDK and builds it, or set {VARIABLE} to \
         its path; looked for {}",
        .looked.join(", ")
    )]
    Missing { looked: Vec<String> },
    /// The system cannot load the shim.
    #[error("{path} cannot be loaded: {why}; `scripts/setup --with-dpdk` installs DPDK and rebuilds it")]
    Unloadable { path: String, why: String },
    /// The shim was built for another version of this program.
    #[error(
        "{path} has version {found} of the ABI, this program needs {VERSION}: `scripts/setup --with-dpdk` rebuilds it"
    )]
    Version { path: String, found: u32 },
}

am_transport::debug_as_display!(ShimError);

/// Whether DPDK is available. Loads the shim, and does not start DPDK.
///
/// # Errors
/// See [`ShimError`].
pub fn find() -> Result<(), ShimError> {
    table().map(drop)
}

/// The functions of the shim. The first call loads it. It is never unloaded, because DPDK has threads in it.
///
/// # Errors
/// See [`ShimError`]. The result is the same for the rest of the process.
pub(crate) fn table() -> Result<&'static Table, ShimError> {
    // glibc would load a second C library beside the linked one, and crash if the versions differ.
    if cfg!(target_feature = "crt-static") {
        return Err(ShimError::Static);
    }
    static TABLE: OnceLock<Result<&'static Table, ShimError>> = OnceLock::new();
    TABLE.get_or_init(|| load(&places(env::var_os(VARIABLE), env::current_exe().ok().as_deref()))).clone()
}

/// Candidates for its path: the user's, or else beside the program (tests and examples are one directory further down),
/// and then the system's search path.
fn places(variable: Option<OsString>, program: Option<&Path>) -> Vec<PathBuf> {
    if let Some(path) = variable {
        return vec![path.into()];
    }
    let beside = program
        .and_then(Path::parent)
        .into_iter()
        .flat_map(|directory| [directory.join(FILE), directory.join("..").join(FILE)]);
    beside.chain([PathBuf::from(FILE)]).collect()
}

fn load(places: &[PathBuf]) -> Result<&'static Table, ShimError> {
    for path in places {
        // A bare name is searched by the system. Whether it exists shows when it is loaded.
        let is_name = path.components().count() == 1;
        if !is_name && !path.exists() {
            continue;
        }
        match load_one(path) {
            Err(ShimError::Unloadable { why, .. }) if is_name && why.contains("No such file") && why.contains(FILE) => {
            }
            result => return result,
        }
    }
    Err(ShimError::Missing { looked: places.iter().map(|path| path.display().to_string()).collect() })
}

fn load_one(path: &Path) -> Result<&'static Table, ShimError> {
    let shown = || path.display().to_string();
    let unloadable = |why: libloading::Error| ShimError::Unloadable { path: shown(), why: why.to_string() };
    // SAFETY: the file is this project's, or the user that runs this program put it there. That user could also replace
    // the program.
    let library = unsafe { Library::new(path) }.map_err(unloadable)?;
    // SAFETY: the symbol has had this type in all versions.
    let entry = unsafe { library.get::<Entry>(SYMBOL) }.map_err(unloadable)?;
    // SAFETY: the library is loaded, and the function has no conditions.
    let table = unsafe { entry() };
    // SAFETY: in every version the table starts with the version.
    let found = unsafe { (&raw const (*table).version).read() };
    if found != VERSION {
        return Err(ShimError::Version { path: shown(), found });
    }
    std::mem::forget(library);
    // SAFETY: the version guarantees this type. The table is a constant of a library that stays loaded.
    Ok(unsafe { &*table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_says_goes_before_all_others() {
        assert_eq!(places(Some("/x/y.so".into()), Some(Path::new("/a/b"))), [PathBuf::from("/x/y.so")]);
        let beside = places(None, Some(Path::new("/a/debug/deps/test")));
        assert_eq!(beside[0], Path::new("/a/debug/deps").join(FILE));
        assert_eq!(beside[1], Path::new("/a/debug/deps/..").join(FILE));
        assert_eq!(beside[2], Path::new(FILE));
    }

    #[test]
    fn a_missing_shim_is_named_with_what_makes_it() {
        let error = load(&["/nowhere/libdpdk_shim.so".into()]).map(|_| ()).unwrap_err();
        assert!(matches!(error, ShimError::Missing { .. }));
        let text = error.to_string();
        assert!(text.contains("scripts/setup --with-dpdk") && text.contains("/nowhere/"), "{text}");
    }

    #[test]
    fn what_is_no_library_is_not_loaded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "no library").unwrap();
        let error = load(&[file.path().into()]).map(|_| ()).unwrap_err();
        assert!(matches!(&error, ShimError::Unloadable { why, .. } if !why.is_empty()), "{error}");
    }
}
