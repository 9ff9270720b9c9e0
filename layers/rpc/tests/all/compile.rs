//! Programs that must not compile, and what the compiler says of them.

#[test]
fn the_compiler_says_what_is_wrong() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile/*.rs");
}
