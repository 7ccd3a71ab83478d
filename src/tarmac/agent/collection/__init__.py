"""Taking away what nobody needs any more: images, dead containers, old logs, folders of pods that are gone."""
