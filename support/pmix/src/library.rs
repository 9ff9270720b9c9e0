//! libpmix's functions, loaded at run time, and the types of its ABI that they take.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::ptr;

use libloading::Symbol;

use crate::error::PmixError;

/// The name of the ABI, the same for versions 2 to 5.
const LIBRARY: &str = "libpmix.so.2";

const SUCCESS: c_int = 0;
/// `PMIX_GLOBAL`: for processes on all hosts.
const GLOBAL: u8 = 3;
const MAX_JOB: usize = 255;
const MAX_KEY: usize = 511;

/// Types of values, as `pmix_common.h` numbers them.
const SIZE: u16 = 4;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const BYTES: u16 = 27;
const RANK: u16 = 40;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Proc {
    job: [c_char; MAX_JOB + 1],
    rank: u32,
}

impl Proc {
    /// All ranks of the job (`PMIX_RANK_WILDCARD`).
    pub(crate) const ALL: u32 = u32::MAX - 1;

    pub(crate) fn of_rank(&self, rank: u32) -> Proc {
        Proc { rank, ..*self }
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    pub(crate) fn job(&self) -> String {
        let bytes: Vec<u8> = self.job.iter().map(|byte| byte.cast_unsigned()).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl fmt::Debug for Proc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.job(), self.rank)
    }
}

/// `pmix_info_t` is never made here: calls get none.
type Info = c_void;

/// `pmix_value_t`. Its union has 8-byte alignment and less than this room in each version.
#[repr(C)]
struct RawValue {
    kind: u16,
    data: Data,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    bytes: ByteObject,
    size: usize,
    uint16: u16,
    uint32: u32,
    room: [u64; 8],
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ByteObject {
    bytes: *mut c_char,
    size: usize,
}

/// A value, as far as it is of use here.
#[derive(Debug)]
pub(crate) enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut RawValue) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut RawValue) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *const Proc, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The loaded library, initialised or not.
#[derive(Debug)]
pub(crate) struct Library {
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    init: Init,
    finalize: Finalize,
    abort: Abort,
    error_string: ErrorString,
    /// Never unloaded: the library has threads of its own.
    _library: &'static libloading::Library,
}

impl Library {
    pub(crate) fn load() -> Result<Library, PmixError> {
        // SAFETY: the library's constructors have no requirements.
        let library: &'static _ = Box::leak(Box::new(unsafe { libloading::Library::new(LIBRARY)? }));
        fn symbol<T: Copy + 'static>(library: &'static libloading::Library, name: &str) -> Result<T, PmixError> {
            // SAFETY: each type above is that of the function of this name in `pmix.h`.
            let symbol: Symbol<'static, T> = unsafe { library.get(name.as_bytes())? };
            Ok(*symbol)
        }
        Ok(Library {
            put: symbol(library, "PMIx_Put")?,
            commit: symbol(library, "PMIx_Commit")?,
            fence: symbol(library, "PMIx_Fence")?,
            get: symbol(library, "PMIx_Get")?,
            init: symbol(library, "PMIx_Init")?,
            finalize: symbol(library, "PMIx_Finalize")?,
            abort: symbol(library, "PMIx_Abort")?,
            error_string: symbol(library, "PMIx_Error_string")?,
            _library: library,
        })
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), PmixError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: it accepts any number.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            String::new()
        } else {
            // SAFETY: not null, and a string of the library's that ends with 0 and stays.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(PmixError::Call { call, status, text })
    }

    /// Join the job; returns this process.
    pub(crate) fn init(&self) -> Result<Proc, PmixError> {
        let mut own = Proc { job: [0; MAX_JOB + 1], rank: 0 };
        // SAFETY: `own` is a `pmix_proc_t`; no information is passed.
        let status = unsafe { (self.init)(&raw mut own, ptr::null_mut(), 0) };
        self.check("PMIx_Init", status).map(|()| own)
    }

    /// Store bytes under a key, for the processes of all hosts.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) -> Result<(), PmixError> {
        let key = to_key(key)?;
        let mut value = RawValue { kind: BYTES, data: Data { room: [0; 8] } };
        value.data.bytes = ByteObject { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        // SAFETY: key and value are valid until the call returns; it copies both, and does not write to the bytes.
        let status = unsafe { (self.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", status)
    }

    /// Hand what was put to the host's server.
    pub(crate) fn commit(&self) -> Result<(), PmixError> {
        // SAFETY: it takes nothing.
        let status = unsafe { (self.commit)() };
        self.check("PMIx_Commit", status)
    }

    /// Wait until all of these are here.
    pub(crate) fn fence(&self, all: &Proc) -> Result<(), PmixError> {
        // SAFETY: one process, valid until the call returns; no information is passed.
        let status = unsafe { (self.fence)(&raw const *all, 1, ptr::null(), 0) };
        self.check("PMIx_Fence", status)
    }

    /// What this process, or the launcher, stored under a key.
    pub(crate) fn get(&self, of: &Proc, key: &str) -> Result<Value, PmixError> {
        let key = to_key(key)?;
        let mut value: *mut RawValue = ptr::null_mut();
        // SAFETY: all arguments are valid until the call returns; no information is passed.
        let status = unsafe { (self.get)(&raw const *of, key.as_ptr(), ptr::null(), 0, &raw mut value) };
        self.check("PMIx_Get", status)?;
        if value.is_null() {
            return Err(PmixError::Untold("a value"));
        }
        // SAFETY: the library returned a value. Its `kind` says which member of the union is set. The value is ours, and is leaked:
        // a job gets as many as it has processes, and each version frees them in another way.
        let found = unsafe {
            match (*value).kind {
                UINT32 | RANK => Some(Value::Number((*value).data.uint32.into())),
                UINT16 => Some(Value::Number((*value).data.uint16.into())),
                SIZE => Some(Value::Number((*value).data.size as u64)),
                BYTES => {
                    let ByteObject { bytes, size } = (*value).data.bytes;
                    let is_empty = bytes.is_null() || size == 0;
                    let bytes = if is_empty { &[][..] } else { std::slice::from_raw_parts(bytes.cast::<u8>(), size) };
                    Some(Value::Bytes(bytes.to_vec()))
                }
                _ => None,
            }
        };
        found.ok_or(PmixError::Untold("a value of a known type"))
    }

    /// End all processes of the job.
    pub(crate) fn abort(&self, code: c_int) -> Result<(), PmixError> {
        let said = c"a process ends the job";
        // SAFETY: the text is valid until the call returns; no processes are named, which means all.
        let status = unsafe { (self.abort)(code, said.as_ptr(), ptr::null(), 0) };
        self.check("PMIx_Abort", status)
    }

    pub(crate) fn finalize(&self) {
        // SAFETY: no information is passed. Nothing can be done about a failure.
        _ = unsafe { (self.finalize)(ptr::null(), 0) };
    }
}

fn to_key(key: &str) -> Result<CString, PmixError> {
    // The library copies into an array of this length.
    CString::new(key).ok().filter(|key| key.as_bytes().len() <= MAX_KEY).ok_or(PmixError::Untold("a key"))
}
