//! The listening edge: [`listen`] takes sockets, [`admission`] is what every request passes,
//! [`routes`] says where it goes, [`acp`] is where ACP begins.

mod acp;
mod admission;
mod answer;
mod listen;
mod routes;

pub use listen::serve;
