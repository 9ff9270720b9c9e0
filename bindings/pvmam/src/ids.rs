//! Address identifiers (PVMAM, section 5.2): offsets into a table of addresses, which mean the same in each process that inserts its
//! addresses in the same order. A message names its handler so.

use std::ffi::{c_int, c_void};
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::code::{Code, Failure};
use crate::handle;
use crate::header::HandlerFn;

/// The most identifiers: the paper's messages have two bytes for one.
pub(crate) const MAX_IDS: usize = 1 << 16;

/// The identifiers that a message can name.
pub(crate) const MAX_HANDLERS: usize = 1 << 8;

/// An address, and what it is.
#[derive(Clone, Copy)]
enum Entry {
    Handler(HandlerFn),
    Data(usize),
}

/// The table. `None` before `am_global_init`.
static TABLE: RwLock<Option<Vec<Entry>>> = RwLock::new(None);

/// Counts the changes of the table.
static CHANGES: AtomicU64 = AtomicU64::new(0);

fn read() -> RwLockReadGuard<'static, Option<Vec<Entry>>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Option<Vec<Entry>>> {
    let table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    // A reader of the new count waits for the lock.
    CHANGES.fetch_add(1, Ordering::Release);
    table
}

/// The number of changes so far.
#[inline]
pub(crate) fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

#[cold]
fn no_table() -> Failure {
    Failure::new(Code::NotInitialized, "call am_global_init before anything else")
}

/// Make the table.
///
/// # Errors
/// It exists.
pub(crate) fn initialize() -> Result<(), Failure> {
    let mut table = write();
    if table.is_some() {
        return Err(Failure::new(
            Code::Initialized,
            "the table exists: call am_global_shutdown before the next am_global_init",
        ));
    }
    *table = Some(vec![]);
    Ok(())
}

/// Free the table.
///
/// # Errors
/// There is none.
pub(crate) fn free() -> Result<(), Failure> {
    write().take().map(drop).ok_or_else(no_table)
}

/// # Errors
/// There is no table.
pub(crate) fn check_initialized() -> Result<(), Failure> {
    if read().is_some() { Ok(()) } else { Err(no_table()) }
}

/// An address that the program passed, which may be a function's.
pub(crate) enum Address {
    Handler(HandlerFn),
    Any(*const c_void),
}

impl Address {
    fn entry(self) -> Result<Entry, Failure> {
        match self {
            Address::Handler(run) => Ok(Entry::Handler(run)),
            Address::Any(address) if address.is_null() => {
                Err(Failure::argument("the address is NULL: pass that of a function or of data"))
            }
            Address::Any(address) if is_code(address.addr()) => {
                // SAFETY: not null, and the address of code. `pvmam.h` asks of the program that a function in the table is a handler.
                Ok(Entry::Handler(unsafe { std::mem::transmute::<*const c_void, HandlerFn>(address) }))
            }
            Address::Any(address) => Ok(Entry::Data(address.addr())),
        }
    }
}

/// Whether this is the address of code. Data is never run, whatever a message names.
fn is_code(address: usize) -> bool {
    // Without a list of the mappings the program is believed.
    fs::read_to_string("/proc/self/maps").map_or(true, |maps| has_code(&maps, address))
}

fn has_code(maps: &str, address: usize) -> bool {
    let number = |text: &str| usize::from_str_radix(text, 16).ok();
    maps.lines().any(|line| {
        let mut words = line.split(' ');
        let range = words.next().and_then(|range| range.split_once('-'));
        let rights = words.next().unwrap_or_default();
        let range = range.and_then(|(start, end)| Some(number(start)?..number(end)?));
        rights.as_bytes().get(2) == Some(&b'x') && range.is_some_and(|range| range.contains(&address))
    })
}

/// The identifier of a new entry.
///
/// # Errors
/// A null address, no table, or no room in it.
pub(crate) fn insert(address: Address) -> Result<c_int, Failure> {
    check_initialized()?;
    let entry = address.entry()?;
    let mut table = write();
    let table = table.as_mut().ok_or_else(no_table)?;
    if table.len() >= MAX_IDS {
        return Err(Failure::plain(Code::Full));
    }
    table.push(entry);
    Ok((table.len() - 1) as c_int)
}

/// Replace the address of an identifier.
///
/// # Errors
/// A null address, no table, or no such identifier; data instead of a handler that messages may name.
pub(crate) fn bind(address: Address, id: c_int) -> Result<(), Failure> {
    check_initialized()?;
    let entry = address.entry()?;
    let mut table = write();
    let table = table.as_mut().ok_or_else(no_table)?;
    let count = table.len();
    let place = usize::try_from(id).ok().and_then(|at| table.get_mut(at));
    let place = place.ok_or_else(|| unknown(id, count))?;
    if matches!((&*place, &entry), (Entry::Handler(_), Entry::Data(_))) && handle::count_open() > 0 {
        let text = format!(
            "identifier {id} has a handler, and messages may name it while interfaces are open: bind a handler, or shut them down first"
        );
        return Err(Failure::new(Code::Open, text));
    }
    *place = entry;
    Ok(())
}

/// The address of an identifier.
///
/// # Errors
/// No table, or no such identifier.
pub(crate) fn find(id: c_int) -> Result<*mut c_void, Failure> {
    let table = read();
    let table = table.as_ref().ok_or_else(no_table)?;
    let entry = usize::try_from(id).ok().and_then(|at| table.get(at));
    Ok(match *entry.ok_or_else(|| unknown(id, table.len()))? {
        Entry::Handler(run) => run as *mut c_void,
        Entry::Data(address) => std::ptr::with_exposed_provenance_mut(address),
    })
}

#[cold]
fn unknown(id: c_int, count: usize) -> Failure {
    Failure::new(
        Code::Id,
        format!("there is no identifier {id}: am_address_to_id has returned {count} so far, from 0 on"),
    )
}

/// The handler that a message names, if there is one.
#[inline]
pub(crate) fn handler(id: u8) -> Option<HandlerFn> {
    let table = read();
    let entry = table.as_ref()?.get(usize::from(id))?;
    if let Entry::Handler(run) = *entry { Some(run) } else { None }
}

/// The identifiers of handlers that a message can name.
pub(crate) fn handlers() -> Vec<u8> {
    (0..=u8::MAX).filter(|id| handler(*id).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_run_is_code() {
        let maps = "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/program\n\
                    00651000-00652000 rw-p 00051000 08:02 173521 /usr/bin/program\n";
        assert!(has_code(maps, 0x0040_0000) && has_code(maps, 0x0045_1fff));
        assert!(!has_code(maps, 0x0045_2000) && !has_code(maps, 0x0065_1000) && !has_code(maps, 0));
        let data = Box::new(7);
        assert!(is_code((only_what_can_be_run_is_code as *const ()).addr()) && !is_code((&raw const *data).addr()));
    }
}
