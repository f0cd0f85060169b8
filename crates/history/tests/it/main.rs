//! The checker against histories that are right, wrong, and judged by somebody else.

mod agreement;
mod rng;
mod rules;
mod search;
mod simulate;
mod speed;
