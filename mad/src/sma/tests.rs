mod attributes;
mod fake;
mod port;
mod traps;
