//! The PVM library of the program: its functions and variables, and whether it is one that this library knows.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::{mem, ptr, slice};

use libc::timeval;

use crate::layout::{self, Frag, HEADROOM, Pmsg, XDR};
use crate::memory;

/// A function of the program that takes a message.
pub(crate) type Handler = Option<unsafe extern "C-unwind" fn(c_int) -> c_int>;

/// The versions whose structures are known.
const KNOWN: &str = "3.4.6";

/// Why this library steps aside.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unknown {
    #[error("no libpvm3.so.3 is loaded: link the program with -lpvm3, and not with libpvm3.a")]
    NoLibrary,
    #[error("libpvm3.so.3 has no `{0}`")]
    Missing(&'static str),
    #[error("libpvm3.so.3 is version {0}, and this library knows {KNOWN}")]
    Version(String),
    #[error("the structures of libpvm3.so.3 are not those of version {KNOWN}: {0}")]
    Structure(&'static str),
}

/// What PVM may take beside the bytes of a fragment.
const PVMS_OWN: c_int = 4096;

/// Declares the functions and variables, and how they are found.
macro_rules! symbols {
    ($(fn $function:ident = $name:ident($($argument:ty),*) $(-> $result:ty)?;)* $(static $variable:ident = $symbol:ident;)*) => {
        /// PVM's own functions and variables.
        #[derive(Debug)]
        pub(crate) struct Library {
            $(pub(crate) $function: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?,)*
            $($variable: *mut c_int,)*
            /// The first one that this library does not have.
            lacks: Option<&'static str>,
        }

        impl Library {
            fn load(handle: *mut c_void) -> Library {
                let mut lacks = None;
                let mut find = |name| find(handle, name).unwrap_or_else(|| {
                    lacks = lacks.or(Some(name));
                    ptr::null_mut()
                });
                let function = |found: *mut c_void| if found.is_null() { never_called as *mut c_void } else { found };
                Library {
                    // SAFETY: the function of this name has this signature in every version of PVM 3.4.
                    $($function: unsafe { mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?>(
                        function(find(stringify!($name))),
                    ) },)*
                    $($variable: find(stringify!($symbol)).cast(),)*
                    lacks,
                }
            }
        }
    };
}

symbols! {
    fn route = mroute(c_int, c_int, c_int, *mut timeval) -> c_int;
    fn input = mesg_input(*mut Pmsg) -> c_int;
    fn multicast = pvmmcast(c_int, *mut c_int, c_int, c_int) -> c_int;
    fn descriptors = pvm_getfds(*mut *mut c_int) -> c_int;
    fn end_task = pvmendtask() -> c_int;
    fn notify = pvm_notify(c_int, c_int, c_int, *mut c_int) -> c_int;
    fn add_handler = pvm_addmhf(c_int, c_int, c_int, Handler) -> c_int;
    fn read_address = hex_inadport(*mut c_char, *mut libc::sockaddr_in);
    fn new_message = umbuf_new() -> *mut Pmsg;
    fn free_message = umbuf_free(*mut Pmsg) -> c_int;
    fn unref_message = pmsg_unref(*mut Pmsg);
    fn new_fragment = fr_new(c_int) -> *mut Frag;
    fn new_bytes = da_new(c_int) -> *mut c_char;
    fn unref_bytes = da_unref(*mut c_char);
    fn set_encoding = pmsg_setenc(*mut Pmsg, c_int) -> c_int;
    fn message = midtobuf(c_int) -> *mut Pmsg;
    fn bufinfo = pvm_bufinfo(c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
    fn version = pvm_version() -> *const c_char;
    fn socket_file = pvmdsockfile() -> *const c_char;
    static own_tid = pvmmytid;
    static route_option = pvmrouteopt;
    static own_context = pvmmyctx;
    static own_encoding = pvmmydsig;
}

// SAFETY: pointers to functions, and to variables that live as long as the process. PVM has no threads: whatever calls it already
// takes care that one thread at a time does.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// In place of a function that is not there: [`Library::check`] fails first.
extern "C-unwind" fn never_called() {
    std::process::abort();
}

fn find(handle: *mut c_void, name: &str) -> Option<*mut c_void> {
    let text = std::ffi::CString::new(name).ok()?;
    // SAFETY: an open handle, and a name.
    let found = unsafe { libc::dlsym(handle, text.as_ptr()) };
    (!found.is_null()).then_some(found)
}

impl Library {
    /// The loaded library. The first call looks for it.
    pub(crate) fn get() -> Option<&'static Library> {
        static LOADED: OnceLock<Option<Library>> = OnceLock::new();
        LOADED.get_or_init(|| Library::open().ok()).as_ref()
    }

    /// # Errors
    /// The program has none.
    pub(crate) fn open() -> Result<Library, Unknown> {
        // SAFETY: it is loaded already, so nothing of it runs now. The handle is kept: the library stays.
        let loaded = unsafe { libc::dlopen(c"libpvm3.so.3".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        // A library of another name has the same functions behind this one.
        let handle = if loaded.is_null() { libc::RTLD_NEXT } else { loaded };
        find(handle, "mroute").map(|_| Library::load(handle)).ok_or(Unknown::NoLibrary)
    }

    /// Its version.
    pub(crate) fn version_text(&self) -> String {
        // SAFETY: it returns a text that stays.
        let version = unsafe { CStr::from_ptr((self.version)()) };
        version.to_string_lossy().into_owned()
    }

    /// Whether its version and its structures are known. Looked at once.
    pub(crate) fn check(&self) -> Result<(), Unknown> {
        if let Some(name) = self.lacks {
            return Err(Unknown::Missing(name));
        }
        let version = self.version_text();
        if version != KNOWN {
            return Err(Unknown::Version(version));
        }
        let message = self.build(&[b"12345", b"678"], XDR);
        let checked = self.check_message(message);
        // SAFETY: made above.
        unsafe { (self.free_message)(message) };
        checked.map_err(Unknown::Structure)
    }

    /// Compare a new message of PVM's with what `layout.rs` says.
    fn check_message(&self, message: *mut Pmsg) -> Result<(), &'static str> {
        let wanted = |is: bool, what| if is { Ok(()) } else { Err(what) };
        // SAFETY: a message that PVM has made. A field at the wrong place is a wrong number in memory of that message.
        unsafe {
            wanted((self.message)((*message).mid) == message, "a message's number is elsewhere")?;
            wanted((*message).references == 1, "the count of references is elsewhere")?;
            ((*message).tag, (*message).source) = (17, 0x40002);
            let (mut length, mut tag, mut source) = (0, 0, 0);
            (self.bufinfo)((*message).mid, &raw mut length, &raw mut tag, &raw mut source);
            wanted((length, tag, source) == (8, 17, 0x40002), "the length, the tag or the source is elsewhere")?;
            wanted((*message).encoding == XDR, "the encoding is elsewhere")?;
            let first = (*(*message).frags).next;
            wanted((*first).room as usize == 5 + HEADROOM && (*first).length == 5, "a fragment is another one")?;
            wanted(*memory::references((*first).buffer) == 1, "a fragment's count of references is elsewhere")?;
            wanted(layout::fragments(message).map(<[u8]>::len).eq([5, 3]), "the ring of fragments is another one")
        }
    }

    /// A message with these fragments.
    pub(crate) fn build(&self, fragments: &[&[u8]], encoding: c_int) -> *mut Pmsg {
        // SAFETY: PVM's own function, without arguments.
        let message = unsafe { (self.new_message)() };
        // SAFETY: it was just made. PVM ends the program if it has no memory.
        unsafe { (self.set_encoding)(message, encoding) };
        for fragment in fragments {
            self.append(message, fragment);
        }
        message
    }

    /// Append a copy of these bytes to a message, as one fragment.
    pub(crate) fn append(&self, message: *mut Pmsg, bytes: &[u8]) {
        self.append_empty(message, bytes.len());
        self.fill(message, bytes);
    }

    /// Append a fragment with room for this many bytes. `false` if no fragment has so much.
    pub(crate) fn append_empty(&self, message: *mut Pmsg, room: usize) -> bool {
        let length = room.checked_add(HEADROOM).and_then(|length| c_int::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= c_int::MAX - PVMS_OWN) else { return false };
        // SAFETY: a new fragment is in no ring. PVM ends the program if it has no memory.
        unsafe {
            let frag = (self.new_fragment)(length);
            (*frag).data = (*frag).buffer.add(HEADROOM);
            layout::append(message, frag);
        }
        true
    }

    /// Copy these bytes to the room that a message's last fragment has left. `false` if it has less.
    pub(crate) fn fill(&self, message: *mut Pmsg, bytes: &[u8]) -> bool {
        // SAFETY: a message that this library has made. A ring without fragments has no room, and the others have what they were made with.
        unsafe {
            let frag = (*(*message).frags).previous;
            let used = HEADROOM + usize::try_from((*frag).length).unwrap_or(0);
            let left = usize::try_from((*frag).room).unwrap_or(0).saturating_sub(used);
            if bytes.len() > left {
                return false;
            }
            ptr::copy_nonoverlapping(bytes.as_ptr(), (*frag).buffer.add(used), bytes.len());
            (*frag).length += bytes.len() as c_int;
            (*message).length += bytes.len() as c_int;
        }
        true
    }

    /// This task's number; not positive before the daemon has given one.
    pub(crate) fn own_tid(&self) -> c_int {
        // SAFETY: a variable of PVM's, if it is there.
        unsafe { self.own_tid.as_ref() }.copied().unwrap_or(0)
    }

    /// The encoding of this machine.
    pub(crate) fn own_encoding(&self) -> c_int {
        // SAFETY: as above.
        unsafe { *self.own_encoding }
    }

    /// The context of the program's messages.
    pub(crate) fn own_context(&self) -> c_int {
        // SAFETY: as above.
        unsafe { *self.own_context }
    }

    /// Run this with another answer to the question whether direct routes are wanted: this one, or what the program wants if that is less. A handler
    /// that runs meanwhile may set another one, which stays.
    pub(crate) fn with_route_option<T>(&self, option: c_int, work: impl FnOnce() -> T) -> T {
        // SAFETY: a variable of PVM's, which one thread uses.
        let before = unsafe { *self.route_option };
        let during = before.min(option);
        // SAFETY: as above.
        unsafe { *self.route_option = during };
        let done = work();
        // SAFETY: as above.
        unsafe {
            if *self.route_option == during {
                *self.route_option = before;
            }
        }
        done
    }

    /// The descriptors that PVM itself waits on: the daemon's socket, and those of direct routes.
    pub(crate) fn own_descriptors(&self) -> &[c_int] {
        let mut list = ptr::null_mut();
        // SAFETY: it returns the length of its own list, which stays until the next call.
        let count = unsafe { (self.descriptors)(&raw mut list) };
        match usize::try_from(count) {
            // SAFETY: as above.
            Ok(count) if !list.is_null() => unsafe { slice::from_raw_parts(list, count) },
            _ => &[],
        }
    }
}
