"""The dashboard: pages about one memory for a person's own browser, rendered here, without a build step."""
