//! Devices, before their ports are open.

use std::ffi::{CStr, CString};
use std::io;

use super::check;
use crate::abi::{self, Table, Wanted};
use crate::words;

/// A device that DPDK has, with a port that is not open yet.
pub(crate) struct Probed {
    pub(super) table: &'static Table,
    pub(crate) port: abi::Port,
}

impl Probed {
    /// Have DPDK find or make the device.
    ///
    /// # Errors
    /// DPDK's; [`words`] has its messages.
    pub(crate) fn new(table: &'static Table, arguments: &str, name: &str, wanted: Wanted) -> io::Result<Probed> {
        let (arguments, name) = (CString::new(arguments)?, CString::new(name)?);
        let mut port = abi::Port::default();
        // SAFETY: DPDK has been started, since `table` exists; the pointers are strings, and memory to write to.
        check(unsafe { (table.probe)(arguments.as_ptr(), name.as_ptr(), wanted, &mut port) })?;
        Ok(Probed { table, port })
    }

    /// The driver's name.
    pub(crate) fn driver(&self) -> String {
        let bytes = self.port.driver.map(|byte| byte as u8);
        CStr::from_bytes_until_nul(&bytes).map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
    }
}

/// Closes the port, open or not, and removes the device.
impl Drop for Probed {
    fn drop(&mut self) {
        // SAFETY: `new` found the port, and it cannot be used after this.
        if let Err(error) = check(unsafe { (self.table.close)(self.port.id) }) {
            tracing::warn!(%error, complaints = words::complaints(), "closing a port of DPDK's");
        }
    }
}
