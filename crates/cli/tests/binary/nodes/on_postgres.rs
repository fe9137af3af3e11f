//! The tests; `./test quick` leaves them out by this module's name.

mod changes;
mod freeze;
mod kill;
mod limits;
mod links;
mod pair;
mod start;
mod stop;
mod stream;
