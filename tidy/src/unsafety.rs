//! `unsafe` stays where it may be, and says why it is sound.

use proc_macro2::Ident;

use crate::Violation;
use crate::repository::{Crate, Repository, Source};
use crate::tokens::{lex, sequences, word};

/// The directories in which there may be `unsafe`: shared memory, devices, and pointers from C.
pub const ALLOWED: &[&str] =
    &["datapath/ring/", "datapath/afxdp/", "datapath/dpdk/", "datapath/shm/", "bpf/", "bindings/"];

const FORBID: &str = "write `#![forbid(unsafe_code)]` after the crate's page";
const ELSEWHERE: &str = "`unsafe` lives in datapath/ring and the backends (tidy/src/unsafety.rs): use what they offer";
const ARGUE: &str = "say in a `// SAFETY:` comment right before it why this is sound; of an `unsafe fn`, say in a \
                     `# Safety` section what its caller owes";

/// How many lines of comment and statement may stand between the argument and the word.
const REACH: usize = 12;

/// Every `unsafe` in the wrong place or without its argument, and every crate
/// outside that does not forbid it.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let roots = repository.crates.iter().filter(|member| !may(&format!("{}/", member.path)));
    let roots = roots.flat_map(|member| check_roots(member, repository));
    roots.chain(repository.rust().flat_map(check_source)).collect()
}

fn may(path: &str) -> bool {
    ALLOWED.iter().any(|place| path.starts_with(place))
}

fn check_roots<'a>(member: &'a Crate, repository: &'a Repository) -> impl Iterator<Item = Violation> + 'a {
    let roots = member.roots.iter().filter_map(|root| repository.source(root));
    let lax = roots.filter(|root| !root.text.lines().any(|line| line == "#![forbid(unsafe_code)]"));
    lax.map(|root| Violation::new(&root.path, "does not forbid `unsafe`", FORBID))
}

fn check_source(source: &Source) -> Vec<Violation> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut violations = vec![];
    for line in uses(&source.text) {
        if !may(&source.path) && !is_allocator(&lines, line) {
            violations.push(Violation::new(source.line(line), "`unsafe`", ELSEWHERE));
        } else if !is_argued(&lines, line) {
            violations.push(Violation::new(source.line(line), "`unsafe` without an argument", ARGUE));
        }
    }
    violations
}

/// The lines on which the word stands as code. The pointer type
/// `unsafe fn(..)` promises nothing by itself.
fn uses(text: &str) -> Vec<usize> {
    let mut lines = vec![];
    for tokens in sequences(lex(text)) {
        for (at, token) in tokens.iter().enumerate() {
            let next = |by| word(tokens.get(at + by)).map(Ident::to_string);
            // As it is, or `unsafe extern "C" fn(..)`.
            let to = if next(1).as_deref() == Some("extern") { 3 } else { 1 };
            let pointer = next(to).as_deref() == Some("fn") && next(to + 1).is_none();
            if word(Some(token)).is_some_and(|word| word == "unsafe") && !pointer {
                lines.push(crate::tokens::line(token));
            }
        }
    }
    lines.sort_unstable();
    lines
}

/// A counting allocator, by which a test shows that nothing is allocated:
/// the one thing that a test cannot do without.
fn is_allocator(lines: &[&str], line: usize) -> bool {
    let text = lines[line - 1];
    let method = ["alloc", "dealloc", "realloc", "alloc_zeroed"];
    text.contains("unsafe impl GlobalAlloc for")
        || method
            .iter()
            .any(|name| text.contains(&format!("unsafe fn {name}(")) || text.contains(&format!("System.{name}(")))
}

fn is_argued(lines: &[&str], line: usize) -> bool {
    let above = lines[..line].iter().rev().take(REACH);
    let mut before = above.enumerate().take_while(|(at, text)| *at == 0 || !text.trim().is_empty());
    before.any(|(_, text)| text.contains("SAFETY:") || text.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str, text: &str) -> Vec<Violation> {
        check_source(&Source { path: path.into(), text: text.into() })
    }

    #[test]
    fn argued_and_in_place_is_fine() {
        let block = "fn f(p: *const u8) -> u8 {\n    // SAFETY: p is valid.\n    unsafe { *p }\n}\n";
        assert_eq!(with("datapath/ring/src/pool.rs", block), []);
        let function = "/// # Safety\n/// `p` is valid.\npub unsafe fn f(p: *const u8) {}\n";
        assert_eq!(with("bpf/src/map.rs", function), []);
    }

    #[test]
    fn elsewhere_or_unargued_is_not() {
        let block = "fn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";
        assert_eq!(with("datapath/ring/src/pool.rs", block)[0].fix, ARGUE);
        assert_eq!(with("datapath/proto/src/core.rs", block)[0].fix, ELSEWHERE);
        let before = "// SAFETY: of something else.\nlet a = 1;\n\nunsafe impl Send for A {}\n";
        assert_eq!(with("datapath/ring/src/pool.rs", before)[0].place, "datapath/ring/src/pool.rs:4");
    }

    #[test]
    fn a_pointer_to_a_function_promises_nothing() {
        let table = "struct T {\n    a: unsafe fn(u8),\n    b: unsafe extern \"C\" fn(u8),\n}\n";
        assert_eq!(with("datapath/dpdk/src/abi.rs", table), []);
        let function = "unsafe extern \"C\" fn f(p: *const u8) {}\n";
        assert_eq!(with("datapath/dpdk/src/abi.rs", function)[0].fix, ARGUE);
    }

    #[test]
    fn in_a_macro_it_is_seen_in_words_it_is_not() {
        assert_eq!(with("am-api/src/node.rs", "m! { fn f() { unsafe { g() } } }").len(), 1);
        assert_eq!(with("am-api/src/node.rs", "// unsafe\nconst A: &str = \"unsafe { }\";\n"), []);
    }

    #[test]
    fn a_crate_outside_forbids_it() {
        let root = Source { path: "am-api/src/lib.rs".into(), text: "//! A page.\n".into() };
        let member = Crate { path: "am-api".into(), roots: vec![root.path.clone()], ..Crate::default() };
        let mut repository = Repository { sources: vec![root], crates: vec![member] };
        assert_eq!(check(&repository)[0].fix, FORBID);
        repository.sources[0].text += "#![forbid(unsafe_code)]\n";
        assert_eq!(check(&repository), []);
    }
}
