//! A synthetic application in the manner of Proteo's SAM: iterations made of stages, groups of processes that
//! follow each other, and the data that moves in between. What it does, so far.

pub mod config;
