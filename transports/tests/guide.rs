//! `docs/transports.md` has every transport that there is: in its table, in the order in which
//! they are tried, and with a section.

const PAGE: &str = include_str!("../../docs/transports.md");

#[test]
fn every_kind_is_on_the_page() {
    let rows: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("| [`")).collect();
    let named: Vec<&str> = rows.iter().filter_map(|row| row.split(':').next()).collect();
    let kinds: Vec<&str> = transports::kinds().iter().map(|kind| kind.scheme).collect();
    assert_eq!(named[..kinds.len()], kinds, "the rows of the first table, and `transports::kinds()`");
    for scheme in kinds {
        assert!(PAGE.contains(&format!("\n## `{scheme}`\n")), "no section `{scheme}`");
    }
}
