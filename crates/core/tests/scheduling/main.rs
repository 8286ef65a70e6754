//! The core's scheduling, told as stories (`story_*`) and tried on random plans in a random world (`random`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod oracle;
mod random;
mod random_maps;
mod scene;
mod story_answers;
mod story_done;
mod story_ends;
mod story_gate;
mod story_leases;
mod story_map;
mod story_memory;
mod story_order;
mod story_packing;
mod story_placement;
mod story_resume;
mod story_scale;
mod story_standbys;
mod story_stops;
mod story_stuck;
mod story_trouble;
mod world;
