mod attributes;
mod fake;
mod nonsense;
mod port;
mod traps;
