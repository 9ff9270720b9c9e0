//! Which instructions of this program lock the memory bus, by what the disassembler says.

use std::collections::HashSet;
use std::process::Command;

use crate::Error;

/// Their addresses, where the program is loaded at 0.
pub(crate) fn find() -> Result<HashSet<u64>, Error> {
    let program = std::env::current_exe()?;
    let output = Command::new("objdump").args(["--disassemble", "--no-show-raw-insn"]).arg(program).output();
    let output = output.map_err(|error| format!("objdump: {error}; it is in the package binutils"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(address).collect())
}

/// The address of a line's instruction, if that locks: an exchange with memory always does.
fn address(line: &str) -> Option<u64> {
    let (address, instruction) = line.split_once(':')?;
    let instruction = instruction.trim();
    let locks = instruction.starts_with("lock ") || (instruction.starts_with("xchg") && instruction.contains('('));
    locks.then(|| u64::from_str_radix(address.trim(), 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn what_locks_is_seen() {
        assert_eq!(address("  a1b2:\tlock cmpxchg %rcx,(%rdx)"), Some(0xa1b2));
        assert_eq!(address("  a1b8:\txchg   %al,0x10(%rdi)"), Some(0xa1b8));
        assert_eq!(address("  a1bc:\txchg   %ax,%ax"), None);
        assert_eq!(address("  a1c0:\tmov    (%rdi),%rax"), None);
        assert_eq!(address("0000000000a1b2 <lock>:"), None);
    }
}
