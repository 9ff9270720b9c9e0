//! What a user gives a program: [`text_file`], the files that it names, and `command_line`, its arguments.

#[cfg(feature = "arguments")]
pub mod command_line;
pub mod text_file;
