//! The binary from outside: what it prints, where, and how it exits.

mod access;
mod bench;
mod care;
mod config;
mod fake;
mod follow;
mod golden;
mod help;
mod serving;
mod streams;
mod support;
mod tidy;
mod torture;
mod usage;
mod watching;
mod wire;
