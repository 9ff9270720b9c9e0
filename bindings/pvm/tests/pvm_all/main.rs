//! Programs of PVM in a virtual machine of Debian's daemon, with and without the library. They need the packages that
//! `scripts/setup --with-pvm` installs.

mod alone;
mod ends;
mod examples;
mod foreign;
mod forms;
mod hosts;
mod kills;
mod machine;
mod others;
mod packages;
mod programs;
