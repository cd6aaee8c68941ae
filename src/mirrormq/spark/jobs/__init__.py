"""Jobs of `mirrormq pipeline`: each a thin main over transforms from DataFrame to DataFrame."""
