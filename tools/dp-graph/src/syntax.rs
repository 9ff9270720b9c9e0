//! What the parser of DOT refuses, in words without its grammar's names.

/// The most letters that a message repeats of a text.
const MAX_SHOWN: usize = 24;

/// Where a text ends that is no part of the graph: a name in quotes, HTML, or a comment.
pub(crate) struct Opaque {
    pub(crate) len: usize,
    pub(crate) is_closed: bool,
}

/// The name in quotes, the HTML or the comment that begins here, as the parser sees it.
pub(crate) fn opaque(rest: &str) -> Option<Opaque> {
    let (begin, end) = match rest.as_bytes() {
        // The end of the text ends the comment, too.
        [b'#', ..] | [b'/', b'/', ..] => {
            let len = rest.find(['\n', '\r']).map_or(rest.len(), |at| at + 1);
            return Some(Opaque { len, is_closed: true });
        }
        [b'/', b'*', ..] => (2, rest[2..].find("*/").map(|at| at + 2)),
        [b'"', ..] => {
            let mut is_escaped = false;
            let ends = |letter| {
                let ends = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                ends
            };
            (1, rest[1..].find(ends).map(|at| at + 1))
        }
        [b'<', ..] => {
            let is_end = |at: &usize| rest[at + 2..].trim_start_matches([' ', '\t', '\r', '\n']).starts_with('>');
            (1, rest[1..].match_indices('>').map(|(at, _)| at).find(is_end).map(|at| at + 1))
        }
        _ => return None,
    };
    Some(Opaque { len: end.map_or(rest.len(), |end| begin + end), is_closed: end.is_some() })
}

/// Why the parser refuses a text: the place, and what stands there. Of what the parser says only the place is for the user.
pub(crate) fn why(text: &str, parser_says: &str) -> String {
    let (open, depth) = unclosed(text);
    if let Some(at) = open {
        let what = if text[at..].starts_with('"') { "name in quotes" } else { "comment" };
        return format!("{}: the {what} that begins here is not closed", place(text, at));
    }
    let Some(at) = position(text, parser_says) else { return "this is no DOT".to_owned() };
    let rest = text[at..].trim_start();
    match rest.chars().next() {
        None if depth > 0 => format!("the graph is not closed: `}}` is missing{}", times(depth)),
        None => "the text ends before the graph is complete".to_owned(),
        Some(first) => {
            let hint = if first == '{' { ": an inner `{` needs `subgraph` before it" } else { "" };
            let at = text.len() - rest.len();
            format!("{}: `{}` cannot stand here{hint}", place(text, at), shown(rest))
        }
    }
}

/// Where a name in quotes or a comment begins that does not end; and how many braces are open.
fn unclosed(text: &str) -> (Option<usize>, usize) {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(letter) = text[at..].chars().next() {
        let opaque = opaque(&text[at..]);
        match letter {
            '"' | '/' if opaque.as_ref().is_some_and(|opaque| !opaque.is_closed) => return (Some(at), depth),
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += opaque.map_or(letter.len_utf8(), |opaque| opaque.len);
    }
    (None, depth)
}

/// The place in the parser's message, which begins with ` --> LINE:COLUMN`.
fn position(text: &str, parser_says: &str) -> Option<usize> {
    let first = parser_says.lines().next()?.trim().strip_prefix("-->")?;
    let (line, column) = first.trim().split_once(':')?;
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let start = match line.checked_sub(2) {
        None => 0,
        Some(nth) => text.match_indices('\n').nth(nth)?.0 + 1,
    };
    let letters = text[start..].char_indices().map(|(at, _)| start + at).chain([text.len()]);
    letters.take(column).last()
}

/// The line and the column, from 1.
fn place(text: &str, at: usize) -> String {
    let before = &text[..at];
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    format!("line {}, column {column}", before.matches('\n').count() + 1)
}

/// The rest of the line, shortened. A terminal gets no control characters.
fn shown(rest: &str) -> String {
    let line = rest.lines().next().unwrap_or_default().trim_end();
    let start: String = line.chars().filter(|letter| !letter.is_control()).take(MAX_SHOWN).collect();
    if line.chars().count() > MAX_SHOWN { format!("{start}..") } else { start }
}

fn times(count: usize) -> String {
    if count == 1 { String::new() } else { format!(", {count} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_place_and_not_the_grammar() {
        for (text, says) in [
            ("digraph { a -> b", "the graph is not closed: `}` is missing"),
            ("digraph { a -> b # }\n", "the graph is not closed: `}` is missing"),
            ("digraph { subgraph { \"}\" -> b\n\n", "the graph is not closed: `}` is missing, 2 times"),
            ("digraph { a -> }", "line 1, column 16: `}` cannot stand here"),
            ("digraph {\n  a -> b }}\n", "line 2, column 11: `}` cannot stand here"),
            ("digraph {\r\n  \"é\" => b\r\n}", "line 2, column 8: `> b` cannot stand here"),
            (
                "digraph { a -> { b c } }",
                "line 1, column 16: `{ b c } }` cannot stand here: an inner `{` needs `subgraph`",
            ),
            ("digraph { \"a -> b }", "line 1, column 11: the name in quotes that begins here is not closed"),
            ("digraph { /* a -> b }", "line 1, column 11: the comment that begins here is not closed"),
            (
                "digraf { a very long line of words }",
                "line 1, column 1: `digraf { a very long lin..` cannot stand here",
            ),
        ] {
            let said = why(text, &graphviz_rust::parse(text).unwrap_err());
            assert!(said.starts_with(says) && !said.contains("expected"), "{text}: {said}");
        }
    }
}
