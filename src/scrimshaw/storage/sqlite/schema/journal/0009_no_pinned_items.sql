-- Nothing ever pinned an item.
ALTER TABLE items DROP COLUMN pinned;
