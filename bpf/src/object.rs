//! A compiled object after loading: the common part of [`Steer`](crate::Steer), [`Raw`](crate::Raw) and
//! [`Probe`](crate::Probe).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Map, MapData, MapError, XskMap};
use aya::programs::{ProgramError, Xdp};
use aya::{Ebpf, EbpfError, EbpfLoader, GlobalData};
use caps::{CapSet, Capability, has_cap};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};

use crate::descriptors;
use crate::error::root_cause;
use crate::kernel::Kernel;
use crate::{AttachError, AttachMode, Attachment, LoadError, SocketError};

/// Descriptors that loading takes: of a program, its maps and its types.
const DESCRIPTORS: usize = 11;

/// A compiled object with its maps and one loaded program.
pub(crate) struct Object {
    ebpf: Ebpf,
    pub(crate) program: String,
}

impl Object {
    /// Create the maps, set the global variable if there is one, load one program. Each program accepts frames in
    /// several pieces, and has a twin, `..._linear`, for kernels without such frames.
    pub(crate) fn load<'a>(
        bytes: &[u8],
        program: &str,
        global: Option<(&'a str, GlobalData<'a>)>,
    ) -> Result<Object, LoadError> {
        let kernel = Kernel::running();
        if kernel.is_older_than(5, 9) {
            return Err(LoadError::KernelTooOld { found: kernel.release });
        }
        if kernel.locks_memory() {
            // As loaders do. Without the right to, the limit stays, and the kernel reports if it is too low.
            let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
        }
        // The loader finds out what the kernel has by trying. Without descriptors it would find that the kernel has nothing,
        // for the rest of the process.
        descriptors::check(DESCRIPTORS).map_err(|error| refusal(&kernel, &error))?;
        let mut loader = EbpfLoader::new();
        if let Some((name, value)) = global {
            loader.override_global(name, value, true);
        }
        let ebpf = loader.load(bytes).map_err(|error| creation_error(&kernel, error))?;
        let program = format!("{program}{}", if kernel.has_frags() { "" } else { "_linear" });
        let mut object = Object { ebpf, program };
        load_patiently(object.program()?).map_err(|error| program_error(&kernel, error))?;
        Ok(object)
    }

    /// The program that was loaded.
    pub(crate) fn program(&mut self) -> Result<&mut Xdp, LoadError> {
        let name = self.program.clone();
        self.named(&name)
    }

    /// Load another one, which accepts frames in several pieces.
    pub(crate) fn load_program(&mut self, name: &str) -> Result<(), LoadError> {
        load_patiently(self.named(name)?).map_err(|error| program_error(&Kernel::running(), error))
    }

    pub(crate) fn named(&mut self, name: &str) -> Result<&mut Xdp, LoadError> {
        let program = self.ebpf.program_mut(name).ok_or_else(|| missing(name))?;
        program.try_into().map_err(|error: ProgramError| LoadError::Object(error.to_string()))
    }

    pub(crate) fn attach(&mut self, interface: &str, mode: AttachMode) -> Result<Attachment, AttachError> {
        let program = self.program().map_err(|error| AttachError::new(interface, &error, None))?;
        Attachment::new(program, interface, mode)
    }

    /// Take a map out of it.
    pub(crate) fn map<T: TryFrom<Map, Error = MapError>>(&mut self, name: &str) -> Result<T, LoadError> {
        let map = self.ebpf.take_map(name).ok_or_else(|| missing(name))?;
        T::try_from(map).map_err(|error| LoadError::Object(format!("map {name}: {error}")))
    }

    /// The memory of a map whose values have no type here.
    pub(crate) fn array(&mut self, name: &str) -> Result<MapData, LoadError> {
        match self.ebpf.take_map(name) {
            Some(Map::Array(data)) => Ok(data),
            _ => Err(missing(name)),
        }
    }
}

/// Give a socket to a program.
pub(crate) fn set_socket(sockets: &mut XskMap<MapData>, index: u32, socket: &impl AsFd) -> Result<(), SocketError> {
    sockets.set(index, socket.as_fd().as_raw_fd(), 0).map_err(|error| SocketError::new(root_cause(&error)))
}

/// The verifier gives up with EAGAIN when a signal arrives, even one without a handler.
fn load_patiently(program: &mut Xdp) -> Result<(), ProgramError> {
    const TRIES: usize = 10;
    let interrupted = |result: &Result<(), ProgramError>| matches!(result, Err(ProgramError::LoadError { io_error, .. }) if io_error.raw_os_error() == Some(libc::EAGAIN));
    let mut results = (0..TRIES).map(|_| program.load());
    let last = results.by_ref().find(|result| !interrupted(result));
    last.unwrap_or_else(|| program.load())
}

fn missing(name: &str) -> LoadError {
    LoadError::Object(format!("it has no {name}"))
}

fn creation_error(kernel: &Kernel, error: EbpfError) -> LoadError {
    match error {
        EbpfError::MapError(error) => refusal(kernel, &error),
        other => LoadError::Object(other.to_string()),
    }
}

fn program_error(kernel: &Kernel, error: ProgramError) -> LoadError {
    match &error {
        ProgramError::LoadError { io_error, verifier_log } if !is_refusal(io_error) => {
            if kernel.needs_perfmon() && !has(&[Capability::CAP_PERFMON]) {
                return LoadError::NotPermitted;
            }
            let log = format!("{io_error}\n{verifier_log}");
            LoadError::Rejected { release: kernel.release.clone(), log }
        }
        _ => refusal(kernel, &error),
    }
}

/// CAP_SYS_ADMIN implies them. If capabilities cannot be read, the kernel's error has to do.
fn has(all: &[Capability]) -> bool {
    let has = |right| has_cap(None, CapSet::Effective, right).unwrap_or(true);
    all.iter().all(|right| has(*right)) || has(Capability::CAP_SYS_ADMIN)
}

/// Errors of the process, whatever the verifier printed.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

fn refusal(kernel: &Kernel, error: &(dyn std::error::Error + 'static)) -> LoadError {
    let (release, source) = (kernel.release.clone(), root_cause(error));
    match source.raw_os_error() {
        // Kernels that charge locked memory report "not permitted" for "too much" too.
        Some(libc::EPERM | libc::ENOMEM)
            if kernel.locks_memory() && has(&[Capability::CAP_BPF, Capability::CAP_NET_ADMIN]) =>
        {
            LoadError::LockedMemory { release }
        }
        Some(libc::EPERM | libc::EACCES) => LoadError::NotPermitted,
        Some(libc::EMFILE | libc::ENFILE) => LoadError::OpenFiles,
        _ => LoadError::Refused { release, source },
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn too_few_file_descriptors_are_no_rejection() {
        let kernel = Kernel::running();
        for number in [libc::EMFILE, libc::ENFILE] {
            let error = io::Error::from_raw_os_error(number);
            assert!(is_refusal(&error));
            assert!(matches!(refusal(&kernel, &error), LoadError::OpenFiles));
        }
        assert!(!is_refusal(&io::Error::from_raw_os_error(libc::EINVAL)));
    }
}
