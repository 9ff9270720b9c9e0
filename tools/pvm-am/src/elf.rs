//! What the file of a program or a library says of itself. Nothing of it runs.

use std::path::{Path, PathBuf};
use std::{env, fs};

use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, elf};

/// The library's own symbol: `check.rs` of bindings/pvm.
const MARK: &[u8] = b"PVM_AM_LIBRARY";
/// How the names of PVM's library begin.
const PVM: &[u8] = b"libpvm3.so";

/// Whether these are the bytes of the library that this program loads before PVM's.
pub(crate) fn is_library(bytes: &[u8]) -> bool {
    let Ok(file) = object::File::parse(bytes) else { return false };
    file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name_bytes() == Ok(MARK))
}

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// The loader has no part in it, so no library can be loaded before others.
    Statically,
    /// The loader loads PVM's library with it.
    WithPvm,
    /// The loader does not: the program loads it later, or has a PVM of its own, or none.
    WithoutPvm,
    /// A script, or nothing that is known.
    Unknown,
}

impl Linked {
    /// The program of this name, which is looked for as a command is.
    pub(crate) fn of(program: &Path) -> Linked {
        let bytes = found(program).and_then(|file| fs::read(file).ok()).unwrap_or_default();
        linked::<elf::FileHeader64<object::Endianness>>(&bytes)
            .or_else(|| linked::<elf::FileHeader32<object::Endianness>>(&bytes))
            .unwrap_or(Linked::Unknown)
    }
}

/// The file of a program.
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 || program.starts_with(".") {
        return Some(program.to_owned());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// `None` if this is no file of this kind.
fn linked<H: FileHeader<Endian = object::Endianness>>(bytes: &[u8]) -> Option<Linked> {
    let header = H::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let parts = header.program_headers(endian, bytes).ok()?;
    if !parts.iter().any(|part| part.p_type(endian) == elf::PT_INTERP) {
        return Some(Linked::Statically);
    }
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, link) = sections.dynamic(endian, bytes).ok()??;
    let texts = sections.strings(endian, bytes, link).ok()?;
    let mut needed = entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    let is_pvm = needed.any(|entry| entry.string(endian, texts).is_ok_and(|name| name.starts_with(PVM)));
    Some(if is_pvm { Linked::WithPvm } else { Linked::WithoutPvm })
}
