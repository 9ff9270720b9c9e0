//! The limits that `docs/promises.md` names. The tests of each crate that has one compare it.

/// The number in the row of the page that starts like this.
pub fn documented(what: &str) -> usize {
    let page = include_str!("../../../docs/promises.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| {what} |"))).expect("a row");
    let number: String = row.split('|').nth(2).expect("a column").chars().filter(char::is_ascii_digit).collect();
    number.parse().expect("a number")
}
