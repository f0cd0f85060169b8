//! The server over sockets: what the two parts of the specification say and the public suite does
//! not ask. Each test is named after the claim that it defends.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod appends;
mod attributes;
mod auth;
mod batch;
mod bootstrap;
mod clock;
mod compression;
mod cors;
mod damage;
mod forks;
mod injection;
mod json;
mod json_table;
mod lifetime;
mod limits;
mod listing;
mod live;
mod metrics;
mod offsets;
mod paging;
mod paths;
mod quotas;
mod races;
mod rates;
mod records;
mod requests;
mod retention;
mod seed_000;
mod seed_003;
mod snapshot_reads;
mod snapshots;
mod start;
mod support;
mod text;
