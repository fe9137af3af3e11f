//! Reads do not look through tables, whatever is asked for. The stores themselves watch their statements in tests, and a
//! read fails whose plan does: here each read is made in each way.

use super::World;

pub async fn no_read_looks_through_a_table(mut world: World) {
    let subjects = world.fill(3).await;
    world.read_everything(&subjects).await;
    // A workspace that is not alone is read in another way.
    world.new_workspace("second").await;
    world.read_everything(&subjects).await;
}
