"""The gate `Quota` of Instances: lifted for as many as the quotas of their namespace have room for."""
