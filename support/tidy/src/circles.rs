//! No circle of modules.
//!
//! ```text
//!   a/mod.rs ── uses ──▶ a/b.rs ── uses ──▶ a/c.rs      fine: a reader starts at c and never turns back
//!                           ▲                 │
//!                           └───── uses ──────┘         a circle: b and c can only be read together
//! ```
//!
//! A crate's modules are a tree. At each node of it the children are compared, each with all that is below it: none may
//! need a sibling that needs it, directly or by way of others.
//!
//! A parent that has a type, and children with its parts and methods (`Bulk` and `bulk/*`), is one unit with them: what
//! goes up and down there is not looked at. The crate's root is the exception: what it defines itself stands beside
//! its children, as a module of its own. A name that a module only passes on belongs to the module that defines it.
//!
//! Methods of one type may stand in several files. The type and what its fields are made of stand below, the files with its methods
//! above, and among these, too, each is built on others one way. A call of a method names no module. It is a need of the module that
//! defines the method, if one module alone has a method of this name.
//!
//! Libraries are held to this, and programs (`bench`) are not: nothing is built on a part of a program.

use std::collections::{BTreeMap, VecDeque};

use crate::Violation;
use crate::modules::Modules;
use crate::repository::Repository;

const CUT: &str = "cut the circle: put the data that both need into a module below, and the code that drives it above";

/// Every circle of modules of every library.
pub fn check(repository: &Repository) -> Vec<Violation> {
    let roots = repository.crates.iter().flat_map(|member| &member.roots).filter(|root| root.ends_with("lib.rs"));
    let crates: Vec<_> = roots.map(|root| (root, Modules::of_crate(repository, root))).collect();
    let mut owners = BTreeMap::new();
    crates.iter().flat_map(|(_, modules)| modules.methods()).for_each(|name| *owners.entry(name).or_insert(0) += 1);
    crates.iter().flat_map(|(root, modules)| check_tree(modules, root, &owners)).collect()
}

/// Who needs whom among the children of one module, and a place that shows it.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

fn check_tree(modules: &Modules, root: &str, owners: &BTreeMap<&str, usize>) -> Vec<Violation> {
    let mut graphs: BTreeMap<&[String], Graph> = BTreeMap::new();
    for (from, module) in &modules.0 {
        let named = modules.paths(from).filter_map(|(line, path)| Some((line, modules.owner(from, path, false, 0)?)));
        let called = modules.called(from, owners).map(|(line, owner)| (line, owner.clone()));
        for (line, to) in named.chain(called) {
            // The module that has both below it, and which of its children each is in: the empty name is the module itself.
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let [child, other] = [from, &to].map(|path| path.get(common).cloned().unwrap_or_default());
            if child != other && (common == 0 || !(child.is_empty() || other.is_empty())) {
                let place = format!("{}:{line}", module.file);
                let graph = graphs.entry(&from[..common]).or_default();
                graph.entry(child).or_default().entry(other).or_insert(place);
            }
        }
    }
    graphs.values().flat_map(|graph| circles(graph, root)).collect()
}

/// One circle for each group of modules that need each other, the shortest through its first.
fn circles(graph: &Graph, root: &str) -> Vec<Violation> {
    let mut told: Vec<&String> = vec![];
    let mut violations = vec![];
    for start in graph.keys() {
        let Some(circle) = path(graph, start, start).filter(|_| !told.contains(&start)) else { continue };
        let both = |other: &&String| path(graph, start, other).is_some() && path(graph, other, start).is_some();
        told.extend(graph.keys().filter(both));
        let say = |name: &str| if name.is_empty() { "the crate's root".into() } else { format!("`{name}`") };
        let steps = circle
            .windows(2)
            .map(|step| format!("{} needs {} ({})", say(step[0]), say(step[1]), graph[step[0]][step[1]]));
        violations.push(Violation::new(root, steps.collect::<Vec<_>>().join(", "), CUT));
    }
    violations
}

/// The shortest way from one to the other over at least one edge.
fn path<'a>(graph: &'a Graph, from: &str, to: &str) -> Option<Vec<&'a String>> {
    let (start, _) = graph.get_key_value(from)?;
    let mut ways = VecDeque::from([vec![start]]);
    let mut seen: Vec<&String> = vec![];
    while let Some(way) = ways.pop_front() {
        for next in graph.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer = [&way[..], &[next]].concat();
            if next == to {
                return Some(longer);
            }
            if !seen.contains(&next) {
                seen.push(next);
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Crate, Source};

    /// What is found in a library of these files.
    fn with(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: format!("a/src/{path}.rs"), text: (*text).into() };
        let member = Crate { roots: vec!["a/src/lib.rs".into()], ..Crate::default() };
        let repository = Repository { sources: files.iter().map(source).collect(), crates: vec![member] };
        check(&repository).into_iter().map(|violation| violation.what).collect()
    }

    #[test]
    fn a_circle_is_named() {
        let root = "mod b;\nmod c;\nmod d;";
        let files = [("lib", root), ("b", "use crate::c::C;"), ("c", "\nfn f() { super::d::g() }"), ("d", "")];
        assert_eq!(with(&files), [""; 0]);
        let back = [files[0], files[1], files[2], ("d", "fn g() -> [crate::b::B; 1] {}")];
        let circle = "`b` needs `c` (a/src/b.rs:1), `c` needs `d` (a/src/c.rs:2), `d` needs `b` (a/src/d.rs:1)";
        assert_eq!(with(&back), [circle], "once");
    }

    #[test]
    fn what_is_passed_on_belongs_to_where_it_is_defined() {
        let root = "mod b; mod c; pub use b::{B, inner::{I as J}}; pub use c::C;";
        let inner = ("b/inner", "pub struct I;");
        let b = ("b", "pub mod inner; pub struct B;");
        assert_eq!(with(&[("lib", root), b, inner, ("c", "use crate::{B, J}; pub struct C;")]), [""; 0]);
        let back = ("b/inner", "use crate::C; pub struct I;");
        for used in ["use crate::{J};", "fn f(_: crate::b::inner::I) {}"] {
            assert_eq!(with(&[("lib", root), b, back, ("c", used)]).len(), 1, "{used}");
        }
    }

    #[test]
    fn each_level_is_looked_at() {
        let (b, parts) =
            ("mod c; mod d; struct B(c::C);", [("b/c", "use super::d::D;"), ("b/d", "fn f(_: super::B) {}")]);
        assert_eq!(with(&[("lib", "mod b;"), ("b/mod", b), parts[0], parts[1]]), [""; 0], "one unit with its parent");
        assert_eq!(with(&[("lib", "mod b;"), ("b/mod", b), parts[0], ("b/d", "use super::c::C;")]).len(), 1);
        assert_eq!(with(&[("lib", "mod b; struct A(b::B);"), ("b", "impl crate::A {}")]).len(), 1, "the root");
        assert_eq!(with(&[("lib", "pub use b::B; mod b; pub const A: u8 = 0;"), ("b", "use crate::A;")]), [""; 0]);
    }

    #[test]
    fn a_call_of_a_method_needs_its_module() {
        let (root, b) =
            ("mod b; mod c; mod d;", ("b", "use crate::c::C; impl C { fn ring<T: Fn() -> u8>(&mut self) {} }"));
        for calls in ["fn f(c: C) { c.ring() }", "fn f(c: C) -> u8 { (c.ring::<u8>)() + c.x.ring::<u8>(1) }"] {
            assert_eq!(with(&[("lib", root), b, ("c", calls), ("d", "")]).len(), 1, "{calls}");
            assert_eq!(
                with(&[("lib", root), b, ("c", calls), ("d", "fn ring(self: Box<Self>) {}")]),
                [""; 0],
                "{calls}"
            );
        }
        for calls in ["fn f(c: C) { c.ring }", "fn f(c: C) { ring() }", "fn f(c: C) { c.rings() }"] {
            assert_eq!(with(&[("lib", root), b, ("c", calls), ("d", "fn ring(this: u8) {}")]), [""; 0], "{calls}");
        }
    }

    #[test]
    fn what_only_tests_need_is_no_need() {
        let tests = "#[cfg(test)]\nmod tests { use crate::b::B; }\n#[cfg(test)]\nuse crate::b::B;\n/// See [`crate::b`].\nfn f() {}";
        assert_eq!(with(&[("lib", "mod b; mod c;"), ("b", "use crate::c::C;"), ("c", tests)]), [""; 0]);
        let inside = "mod d { fn f() { super::super::b::g() } }";
        assert_eq!(with(&[("lib", "mod b; mod c;"), ("b", "use crate::c::C;"), ("c", inside)]).len(), 1);
    }
}
